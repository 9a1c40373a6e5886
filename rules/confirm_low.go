package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// lowTrial replaces pairs on a device with one-sided noise: it holds the log times of both sides. In a
// difference of pairs, a delay on either side would hide the difference of the minima.
type lowTrial struct {
	sides  [2][]float64 // of the row and of its reference; empty for a ceiling
	common float64      // log of the variance of one sample's location, over all trials
}

func poolLow(trials []*trial) {
	var sum, n float64
	w := stats.LowQuantile{}
	for _, t := range trials {
		if t.low == nil {
			continue
		}
		for _, side := range t.low.sides {
			if len(side) > 1 {
				_, se, _ := w.Unsorted(side, nil)
				sum, n = sum+math.Log(math.Max(se*se*float64(len(side)), infer.ScaleFloor*infer.ScaleFloor)), n+1
			}
		}
	}
	for _, t := range trials {
		if t.low != nil && n > 0 {
			t.low.common = sum / n
		}
	}
}

func (l *lowTrial) difference() stats.Estimate {
	w := stats.LowQuantile{}
	e := stats.Estimate{DF: math.Inf(1)}
	for k, side := range l.sides {
		if len(side) == 0 {
			continue
		}
		y, se, _ := w.Unsorted(side, nil)
		n := float64(len(side))
		d := infer.LowDF * (n - 1)
		own := math.Log(math.Max(se*se*n, infer.ScaleFloor*infer.ScaleFloor))
		variance := math.Exp((infer.LowPrior*l.common+d*own)/(infer.LowPrior+d)) / n
		e.Y += y * float64(1-2*k)
		e.SE, e.DF = math.Hypot(e.SE, math.Sqrt(variance)), math.Min(e.DF, infer.LowPrior+d)
	}
	e.SE = math.Max(e.SE, infer.ScaleFloor)
	return e
}

// beyond is P for the hypothesis that the difference is at most bound, or at least bound if sign is negative.
func (l *lowTrial) beyond(bound, sign float64) float64 {
	d := l.difference()
	return stats.UpperP(sign*(d.Y-bound)/d.SE, d.DF)
}
