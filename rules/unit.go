package rules

import (
	"fmt"
	"math"
)

// unit is a possible unit of a column of times, other than microseconds.
type unit struct {
	name string
	us   float64 // microseconds per unit
}

// units are the units that benchmarks write.
var units = []unit{{"milliseconds", 1e3}, {"seconds", 1e6}}

// leastShare is the least share of the peak that the fastest row of a series reaches in a likely unit.
const leastShare = 0.01

// tooFast is the fastest row's rate over the possible rate.
func (c *curve) tooFast() float64 {
	most := math.Inf(-1)
	for _, p := range c.points {
		if p.n > 0 {
			least, _ := leastTime(c.series, p.m)
			most = math.Max(most, least-p.seen.Y)
		}
	}
	return math.Exp(most)
}

// likelyUnit is the unit that explains rows too fast by the factor over, or the zero unit.
func likelyUnit(over float64) unit {
	for _, u := range units {
		if share := over / u.us; share <= 1 && share >= leastShare {
			return u
		}
	}
	return unit{}
}

func (u unit) text() string {
	if u == (unit{}) {
		return ""
	}
	return fmt.Sprintf(": the times are probably %s, not microseconds", u.name)
}
