package rules

import (
	"math"
	"slices"
)

// folds is into how many parts the samples of a row are dealt, in turn, where the best
// of many rows is sought. Choosing by some samples and pricing by others keeps
// the luck that made a row look best out of its price: the estimate is not too good, and
// too bad only by what the choice loses, which is small where rows are alike.
const folds = 4

// crossFitRows is the largest number of rows of a series whose splits are searched once
// for each fold beside all samples: the search grows with the square of it.
const crossFitRows = 32768

// folder centres rows, and what is left of them without a fold. Its lists are used again
// for the next row.
type folder struct {
	parts        [folds][]float64
	halves       [2][]float64
	all, scratch []float64
}

// fold returns the centre of a row's log-times and deals them to the folds.
//
// The parts are sorted each by itself and merged: the centres of many samples, all of which
// need them in order, then take one sort of each sample.
func (f *folder) fold(p *point, y []float64) (whole float64) {
	if len(y) < folds {
		whole, f.scratch = centre(y, f.scratch)
		return whole
	}
	p.folded = true
	for k := range folds {
		f.parts[k] = f.parts[k][:0]
		for i := k; i < len(y); i += folds {
			f.parts[k] = append(f.parts[k], y[i])
		}
		slices.Sort(f.parts[k])
	}
	for k := range f.halves {
		f.halves[k] = merged(f.halves[k][:0], f.parts[2*k], f.parts[2*k+1])
	}
	for k := range folds {
		f.all = merged(f.all[:0], f.halves[1-k/2], f.parts[k^1])
		p.without[k] = f.centre(f.all)
		p.of[k] = f.centre(f.parts[k])
	}
	f.all = merged(f.all[:0], f.halves[0], f.halves[1])
	return f.centre(f.all)
}

// centre is [centre] of sorted log-times.
func (f *folder) centre(sorted []float64) (v float64) {
	if len(sorted) > pairedSamples {
		return middleHalf(sorted)
	}
	v, f.scratch = pseudoMedian(sorted, f.scratch)
	return v
}

// joint is the centre of what the folds say.
func joint(of [folds]float64) float64 {
	v, _ := pseudoMedian(of[:], make([]float64, 0, folds*(folds+1)/2))
	return v
}

// best follows the best of rows that are added one by one: the one with the largest
// value.
type best struct {
	point   int // by all samples; -1 before the first
	value   float64
	chosen  [folds]float64
	held    [folds]float64
	changed bool
	mid     float64
}

func newBest() best {
	b := best{point: -1, value: math.Inf(-1)}
	for k := range folds {
		b.chosen[k] = math.Inf(-1)
	}
	return b
}

// add offers a row: value is by all samples, without and of by fold. It says whether by
// all samples this is the best so far.
func (b *best) add(point int, value float64, without, of [folds]float64) bool {
	for k, v := range without {
		if v > b.chosen[k] {
			b.chosen[k], b.held[k], b.changed = v, of[k], true
		}
	}
	if value <= b.value {
		return false
	}
	b.point, b.value = point, value
	return true
}

// negated turns times into something of which the largest is best.
func negated(v [folds]float64) [folds]float64 {
	for k := range v {
		v[k] = -v[k]
	}
	return v
}

// estimate is the value of the best row, freed of the luck of having been chosen.
func (b *best) estimate() float64 {
	if b.changed {
		b.mid, b.changed = joint(b.held), false
	}
	return b.mid
}
