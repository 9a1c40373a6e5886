package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// mostRecorded is how many products, each at its own M, are taken of a recorded workload: far more than a model computes,
// and as many as are planned in a moment.
const mostRecorded = 1 << 14

// workload adds the products of recorded workloads to what is measured: each at its own Ms, in its own type. The
// layout of most of them holds where no flag gives another, and how often an M is computed is its traffic. Of too many
// products those that are computed most often are taken.
func (f *planFlags) workload(o *sweep.Options) error {
	var shapes []results.Shape
	left := map[string]int{}
	for _, path := range f.shapesFrom {
		w, err := results.ReadWorkload(path)
		if err != nil {
			return err
		}
		shapes = addShapes(shapes, w.Shapes)
		for _, l := range w.LeftOut {
			left[l.Reason] += l.Rows
		}
	}
	if !f.changed("layout") {
		o.Layout = usualLayout(shapes)
	}
	given := len(o.DTypes) > 0
	var taken []results.Shape
	for _, s := range shapes {
		why := ""
		switch {
		case s.Subject.Layout != o.Layout:
			why = "weights are stored as " + s.Subject.Layout.String()
		case s.M > results.MaxM:
			why = "M is too large"
		case s.Subject.DType == "" && !given:
			why = "the file does not say the type: --dtype gives it"
		case given && s.Subject.DType != "" && !slices.Contains(o.DTypes, s.Subject.DType):
			why = "the type is " + string(s.Subject.DType)
		}
		if why != "" {
			left[why] += s.Calls
			continue
		}
		taken = append(taken, s)
	}
	if len(taken) > mostRecorded {
		slices.SortStableFunc(taken, func(a, b results.Shape) int { return cmp.Compare(b.Calls, a.Calls) })
		for _, s := range taken[mostRecorded:] {
			left[fmt.Sprintf("%d other products are named as often or more", mostRecorded)] += s.Calls
		}
		taken = taken[:mostRecorded]
	}
	weights := map[int]float64{}
	for _, s := range taken {
		if d := s.Subject.DType; d != "" && !slices.Contains(o.DTypes, d) {
			o.DTypes = append(o.DTypes, d)
		}
		o.Targets = append(o.Targets, sweep.Target{Operation: kernels.GEMM, N: s.Subject.N, K: s.Subject.K, Products: s.Subject.Products, M: s.M, DType: s.Subject.DType})
		weights[s.M] += float64(s.Calls)
	}
	for _, why := range slices.Sorted(maps.Keys(left)) {
		f.note("--shapes-from: %s left out: %s", plural(left[why], "line", "lines"), why)
	}
	if len(weights) == 0 {
		return usagef("--shapes-from: there is no product to measure in it")
	}
	if len(o.Traffic) == 0 {
		for _, m := range slices.Sorted(maps.Keys(weights)) {
			o.Traffic = append(o.Traffic, results.Load{M: m, Weight: weights[m]})
		}
	}
	return nil
}

// addShapes adds the shapes of another file. Equal ones become one.
func addShapes(to, from []results.Shape) []results.Shape {
	type key struct {
		kernels.Subject
		m int
	}
	at := map[key]int{}
	for i, s := range to {
		at[key{s.Subject, s.M}] = i
	}
	for _, s := range from {
		// The type of the output does not change what is planned.
		s.Subject.Output = ""
		k := key{s.Subject, s.M}
		i, ok := at[k]
		if !ok {
			i = len(to)
			at[k] = i
			to = append(to, results.Shape{Subject: s.Subject, M: s.M})
		}
		to[i].Calls += s.Calls
	}
	return to
}

// usualLayout is how weights are stored in most of the calls.
func usualLayout(shapes []results.Shape) kernels.Layout {
	calls := map[kernels.Layout]int{}
	for _, s := range shapes {
		calls[s.Subject.Layout] += s.Calls
	}
	if calls[kernels.RowMajor] > calls[kernels.Transposed] {
		return kernels.RowMajor
	}
	return kernels.Transposed
}
