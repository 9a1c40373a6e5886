package infer

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// CrossFitRows is the largest number of rows of a series whose splits are also searched once per fold: the
// search is quadratic in it.
const CrossFitRows = 32768

// folder computes the centers of rows, and of their samples without each fold. Its buffers are reused for the
// next row.
type folder struct {
	parts        [stats.Folds][]float64
	halves       [2][]float64
	all, scratch []float64
}

// fold returns the center of a row's log times and deals them to the folds.
//
// The parts are sorted separately and merged, so the centers, which need sorted samples, cost one sort per
// sample.
func (f *folder) fold(p *Point, y []float64) (whole float64) {
	if len(y) < stats.Folds {
		whole, f.scratch = stats.Centre(y, f.scratch)
		return whole
	}
	p.Folded = true
	for k := range stats.Folds {
		f.parts[k] = f.parts[k][:0]
		for i := k; i < len(y); i += stats.Folds {
			f.parts[k] = append(f.parts[k], y[i])
		}
		slices.Sort(f.parts[k])
	}
	for k := range f.halves {
		f.halves[k] = stats.MergeSorted(f.halves[k][:0], f.parts[2*k], f.parts[2*k+1])
	}
	for k := range stats.Folds {
		f.all = stats.MergeSorted(f.all[:0], f.halves[1-k/2], f.parts[k^1])
		p.Without[k] = f.centre(f.all)
		p.Of[k] = f.centre(f.parts[k])
	}
	f.all = stats.MergeSorted(f.all[:0], f.halves[0], f.halves[1])
	return f.centre(f.all)
}

func (f *folder) centre(sorted []float64) (v float64) {
	if len(sorted) > stats.PairedSamples {
		return stats.MidMean(sorted)
	}
	v, f.scratch = stats.PseudoMedian(sorted, f.scratch)
	return v
}
