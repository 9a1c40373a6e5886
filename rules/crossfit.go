package rules

import (
	"math"
)

// folds is into how many parts the samples of a row are dealt, in turn, where the best
// of many rows is sought. Choosing by some samples and pricing by others keeps
// the luck that made a row look best out of its price: the estimate is not too good, and
// too bad only by what the choice loses, which is small where rows are alike.
const folds = 4

// crossFitRows is the largest number of rows of a series whose splits are searched once
// for each fold beside all samples: the search grows with the square of it.
const crossFitRows = 32768

// fold deals a row's log-times to the folds.
func (p *point) fold(y []float64) {
	if len(y) < folds {
		return
	}
	p.folded = true
	rest, part := make([]float64, 0, len(y)), make([]float64, 0, len(y)/folds+1)
	var scratch []float64
	for k := range folds {
		rest, part = rest[:0], part[:0]
		for i, v := range y {
			if i%folds == k {
				part = append(part, v)
			} else {
				rest = append(rest, v)
			}
		}
		p.without[k], scratch = centre(rest, scratch)
		p.of[k], scratch = centre(part, scratch)
	}
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
