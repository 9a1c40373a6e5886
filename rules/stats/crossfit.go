package stats

import "math"

// JoinFolds is the center of a row's samples from the centers of its folds.
func JoinFolds(of [Folds]float64) float64 {
	v, _ := PseudoMedian(of[:], make([]float64, 0, Folds*(Folds+1)/2))
	return v
}

// Best keeps the best of rows that are added one by one: the one with the largest value. Its Value is
// estimated by other samples than those that chose it.
type Best struct {
	// Point is the position of the best row by all samples; -1 before the first.
	Point   int // by all samples; -1 before the first
	value   float64
	chosen  [Folds]float64
	held    [Folds]float64
	changed bool
	mid     float64
}

// NewBest returns a Best without rows.
func NewBest() Best {
	b := Best{Point: -1, value: math.Inf(-1)}
	for k := range Folds {
		b.chosen[k] = math.Inf(-1)
	}
	return b
}

// Add offers a row: value is by all samples, without and of are by fold. It reports whether the row is the
// best so far by all samples.
func (b *Best) Add(point int, value float64, without, of [Folds]float64) bool {
	for k, v := range without {
		if v > b.chosen[k] {
			b.chosen[k], b.held[k], b.changed = v, of[k], true
		}
	}
	if value <= b.value {
		return false
	}
	b.Point, b.value = point, value
	return true
}

// NegateFolds returns −v.
func NegateFolds(v [Folds]float64) [Folds]float64 {
	for k := range v {
		v[k] = -v[k]
	}
	return v
}

// Value is the value of the best row without selection bias.
func (b *Best) Value() float64 {
	if b.changed {
		b.mid, b.changed = JoinFolds(b.held), false
	}
	return b.mid
}

// Folds is the number of parts that a row's samples are dealt to, in turn, when the best of many rows is
// sought. Choosing by some samples and estimating by others removes the selection bias. The estimate is then
// never too good, and too bad only by a suboptimal choice, which costs little if rows are alike.
const Folds = 4
