package rules

import "math"

// AtThreshold is the change of a case that is known well and lies at the threshold, as
// a [Marginal] row lies at its bound.
const AtThreshold Change = "marginal"

// near says whether a ratio lies at a threshold as a [Marginal] row does at its bound.
func near(ratio Interval, threshold float64) bool {
	return math.Abs(ratio.Mid-threshold) <= marginalMid && ratio.Lo >= threshold-marginalReach && ratio.Hi <= threshold+marginalReach
}

// Marginal counts the cases at the threshold.
func (d *DiffResult) Marginal() int {
	n := 0
	for _, c := range d.Cases {
		if c.Change == AtThreshold {
			n++
		}
	}
	return n
}
