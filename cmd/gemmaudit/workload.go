package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/tunableop"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// mostRecorded is how many products, each at its own M, are taken of a recorded workload: far more than a model computes,
// and as many as are planned in a moment.
const mostRecorded = 1 << 14

// workload adds the products that PyTorch recorded to what is measured: each at its own Ms. Their types and the
// layout of most of them hold where no flag gives others, and how many lines name an M is its traffic. Of too many
// products those that most lines name are taken.
func (f *planFlags) workload(o *sweep.Options) error {
	var files []*tunableop.File
	for _, path := range f.shapesFrom {
		file, err := readTunableOp(path)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	shapes, left := tunableop.Shapes(files...)
	if !f.changed("layout") {
		layout, err := usualLayout(shapes)
		if err != nil {
			return badFlag("shapes-from", err)
		}
		o.Layout = layout
	}
	given := len(o.DTypes) > 0
	var taken []tunableop.Shape
	for _, s := range shapes {
		dtype := kernels.DType(s.DType)
		switch {
		case s.Layout != o.Layout.String():
			left["weights are stored as "+s.Layout] += s.Count
			continue
		case s.M > results.MaxM:
			left["M is too large"] += s.Count
			continue
		case given && !slices.Contains(o.DTypes, dtype):
			left["the type is "+s.DType] += s.Count
			continue
		}
		taken = append(taken, s)
	}
	if len(taken) > mostRecorded {
		slices.SortStableFunc(taken, func(a, b tunableop.Shape) int { return cmp.Compare(b.Count, a.Count) })
		for _, s := range taken[mostRecorded:] {
			left[fmt.Sprintf("%d other products are named as often or more", mostRecorded)] += s.Count
		}
		taken = taken[:mostRecorded]
	}
	weights := map[int]float64{}
	for _, s := range taken {
		if dtype := kernels.DType(s.DType); !slices.Contains(o.DTypes, dtype) {
			o.DTypes = append(o.DTypes, dtype)
		}
		o.Targets = append(o.Targets, sweep.Target{Operation: kernels.GEMM, N: s.N, K: s.K, M: s.M})
		weights[s.M] += float64(s.Count)
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

// usualLayout is how most of the lines say that weights are stored.
func usualLayout(shapes []tunableop.Shape) (kernels.Layout, error) {
	lines := map[string]int{}
	for _, s := range shapes {
		lines[s.Layout] += s.Count
	}
	usual := kernels.Transposed.String()
	for layout, n := range lines {
		if n > lines[usual] {
			usual = layout
		}
	}
	return kernels.ParseLayout(usual)
}
