package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// TimeAtStake is loss, a share of the time, × time in microseconds × weight; 0 if there is no loss or the
// result is not a number.
func TimeAtStake(loss, us, weight float64) float64 {
	v := loss * us * weight
	if !(v > 0) || math.IsInf(v, 1) {
		return 0
	}
	return v
}

// stake is the time at stake over the rows of a candidate. For rows measured again it uses the new loss.
func (c *Candidate) stake() float64 {
	var sum float64
	for _, j := range c.Rows {
		loss := j.Loss.Mid
		if t := c.tests[j]; t != nil && t.confirmed {
			loss = t.loss.Mid
		}
		sum += TimeAtStake(loss, math.Exp(j.Curve.Points[j.Point].US.Y), j.Curve.Weight(j.M()))
	}
	return sum
}

// losses are the losses of a candidate's rows by M. For rows measured again they are the new ones.
func (c *Candidate) losses() map[int]stats.Interval {
	out := map[int]stats.Interval{}
	for _, j := range c.Rows {
		out[j.M()] = j.Loss
		if t := c.tests[j]; t != nil && t.confirmed {
			out[j.M()] = t.loss
		}
	}
	return out
}
