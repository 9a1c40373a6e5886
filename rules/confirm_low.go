package rules

import "math"

// lowPrior is the weight, in degrees of freedom, that the trials' common variance has over a trial's own,
// which rests on the few samples around a low quantile.
const lowPrior = 8

// lowTrial is what a trial on a device whose noise only delays keeps in place of pairs: the log-times of both
// sides. A delay on either side would hide in a difference of pairs what the floors show.
type lowTrial struct {
	sides  [2][]float64 // of the row, and of what it is held against; empty for a ceiling
	common float64      // log of the variance of the location of one sample, of all trials
}

// poolLow tells every trial the variance that all of them have in common.
func poolLow(trials []*trial) {
	var sum, n float64
	w := lowWeights{}
	for _, t := range trials {
		if t.low == nil {
			continue
		}
		for _, side := range t.low.sides {
			if len(side) > 1 {
				_, se, _ := w.unsorted(side, nil)
				sum, n = sum+math.Log(math.Max(se*se*float64(len(side)), scaleFloor*scaleFloor)), n+1
			}
		}
	}
	for _, t := range trials {
		if t.low != nil && n > 0 {
			t.low.common = sum / n
		}
	}
}

// difference is the difference of the sides' low quantiles.
func (l *lowTrial) difference() estimate {
	w := lowWeights{}
	e := estimate{df: math.Inf(1)}
	for k, side := range l.sides {
		if len(side) == 0 {
			continue
		}
		y, se, _ := w.unsorted(side, nil)
		n := float64(len(side))
		d := lowDF * (n - 1)
		own := math.Log(math.Max(se*se*n, scaleFloor*scaleFloor))
		variance := math.Exp((lowPrior*l.common+d*own)/(lowPrior+d)) / n
		e.y += y * float64(1-2*k)
		e.se, e.df = math.Hypot(e.se, math.Sqrt(variance)), math.Min(e.df, lowPrior+d)
	}
	e.se = math.Max(e.se, scaleFloor)
	return e
}

// beyond is P for the hypothesis that the difference is at most bound, or at least bound where sign is negative.
func (l *lowTrial) beyond(bound, sign float64) float64 {
	d := l.difference()
	return upperP(sign*(d.y-bound)/d.se, d.df)
}
