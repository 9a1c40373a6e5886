package rules

import (
	"fmt"
	"math"
)

// unit is what a column of times may hold in place of microseconds.
type unit struct {
	name string
	us   float64 // of one of them
}

// units are those that benchmarks write.
var units = []unit{{"milliseconds", 1e3}, {"seconds", 1e6}}

// leastShare is the share of the peak that the fastest row of a series reaches in a likely unit. One that makes it slower
// explains too much.
const leastShare = 0.01

// tooFast is by what factor the fastest row of a curve exceeds what can be.
func (c *curve) tooFast() float64 {
	most := math.Inf(-1)
	for _, p := range c.points {
		if p.n > 0 {
			least, _ := leastTime(c.series, p.m)
			most = math.Max(most, least-p.seen.y)
		}
	}
	return math.Exp(most)
}

// likelyUnit is the unit by which rows that are too fast by up to a factor are possible; the zero unit where there is none.
func likelyUnit(over float64) unit {
	for _, u := range units {
		if share := over / u.us; share <= 1 && share >= leastShare {
			return u
		}
	}
	return unit{}
}

// text is half a sentence about the unit; empty for the zero unit.
func (u unit) text() string {
	if u == (unit{}) {
		return ""
	}
	return fmt.Sprintf(": the times are probably %s, not microseconds", u.name)
}
