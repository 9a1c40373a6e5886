package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/importing"
)

// AddWorkload adds the products of recorded workloads to a plan, each with its own Ms and type. The most common
// layout applies unless layout is set. Without traffic, the call counts are the weights. If there are too many
// products, the most frequent ones are kept. library computed them, if a file names it; left counts the lines that
// are skipped by reason. The error is [ErrNoProduct] if nothing remains.
func (o *Options) AddWorkload(paths []string, layout bool) (library string, left map[string]int, err error) {
	var shapes []importing.Shape
	left = map[string]int{}
	for _, path := range paths {
		w, err := importing.ReadWorkload(path)
		if err != nil {
			return "", nil, err
		}
		shapes = addShapes(shapes, w.Shapes)
		library = cmp.Or(library, w.Library)
		for _, l := range w.LeftOut {
			left[l.Reason] += l.Rows
		}
	}
	if !layout {
		o.Layout = usualLayout(shapes)
	}
	taken := o.take(shapes, left)
	calls := map[results.RecordedKey]float64{}
	for _, s := range taken {
		if d := s.Subject.DType; d != "" && !slices.Contains(o.DTypes, d) {
			o.DTypes = append(o.DTypes, d)
		}
		of := s.Subject
		o.Targets = append(o.Targets, Target{Operation: of.Operation, N: of.N, K: of.K, Products: of.Products, M: s.M, DType: of.DType})
		calls[results.RecordedKey{DType: of.DType, N: of.N, K: of.K, Products: of.Products, M: s.M}] += float64(s.Calls)
	}
	if len(o.Traffic) == 0 {
		for key, n := range calls {
			o.Recorded = append(o.Recorded, results.RecordedProduct{RecordedKey: key, Calls: n})
		}
		o.Recorded.Sort()
	}
	if len(taken) == 0 {
		return library, left, ErrNoProduct
	}
	return library, left, nil
}

// ErrNoProduct is the error of a workload without a product to measure.
var ErrNoProduct = errors.New("no product to measure in it")

// take returns the shapes to measure, and counts the others by reason.
func (o *Options) take(shapes []importing.Shape, left map[string]int) []importing.Shape {
	given := len(o.DTypes) > 0
	var taken []importing.Shape
	for _, s := range shapes {
		why := ""
		switch {
		case s.Subject.Layout != o.Layout:
			why = "weights are stored as " + s.Subject.Layout.String()
		case s.M > results.MaxM:
			why = "M is too large"
		case s.Subject.DType == "" && !given:
			why = "the file has no data type: set --dtype"
		case given && s.Subject.DType != "" && !slices.Contains(o.DTypes, s.Subject.DType):
			why = "the type is " + string(s.Subject.DType)
		}
		if why != "" {
			left[why] += s.Calls
			continue
		}
		taken = append(taken, s)
	}
	if len(taken) > results.MostRecorded {
		slices.SortStableFunc(taken, func(a, b importing.Shape) int { return cmp.Compare(b.Calls, a.Calls) })
		for _, s := range taken[results.MostRecorded:] {
			left[fmt.Sprintf("%d other products have as many calls or more", results.MostRecorded)] += s.Calls
		}
		taken = taken[:results.MostRecorded]
	}
	return taken
}

func addShapes(to, from []importing.Shape) []importing.Shape {
	type key struct {
		kernels.Subject
		m int
	}
	at := map[key]int{}
	for i, s := range to {
		at[key{s.Subject, s.M}] = i
	}
	for _, s := range from {
		// The output type does not affect the plan.
		s.Subject.Output = ""
		k := key{s.Subject, s.M}
		i, ok := at[k]
		if !ok {
			i = len(to)
			at[k] = i
			to = append(to, importing.Shape{Subject: s.Subject, M: s.M})
		}
		to[i].Calls += s.Calls
	}
	return to
}

func usualLayout(shapes []importing.Shape) kernels.Layout {
	calls := map[kernels.Layout]int{}
	for _, s := range shapes {
		calls[s.Subject.Layout] += s.Calls
	}
	if calls[kernels.RowMajor] > calls[kernels.Transposed] {
		return kernels.RowMajor
	}
	return kernels.Transposed
}
