package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// AtThreshold is the change of a case that is known precisely and lies at the threshold, like a [Marginal]
// row.
const AtThreshold Change = "marginal"

func near(ratio stats.Interval, threshold float64) bool {
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
