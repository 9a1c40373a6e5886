package infer

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/results"
)

// Unit is a possible unit of a column of times, other than microseconds.
type Unit struct {
	name string
	us   float64 // microseconds per unit
}

// units are the units that benchmarks write.
var units = []Unit{{"milliseconds", 1e3}, {"seconds", 1e6}}

// leastShare is the least share of the peak that the fastest row of a series reaches in a likely unit.
const leastShare = 0.01

// TooFast is the fastest row's rate over the possible rate.
func (c *Curve) TooFast() float64 {
	most := math.Inf(-1)
	for _, p := range c.Points {
		if p.N > 0 {
			least, _ := LeastTime(c.Series, p.M)
			most = math.Max(most, least-p.Seen.Y)
		}
	}
	return math.Exp(most)
}

// LikelyUnit is the unit that explains rows too fast by the factor over, or the zero unit.
func LikelyUnit(over float64) Unit {
	for _, u := range units {
		if share := over / u.us; share <= 1 && share >= leastShare {
			return u
		}
	}
	return Unit{}
}

// Text is a half sentence that names the unit, empty for the zero Unit.
func (u Unit) Text() string {
	if u == (Unit{}) {
		return ""
	}
	return fmt.Sprintf(": the times are probably %s, not microseconds", u.name)
}

// LeastTime is the log of the least possible time for an M in microseconds, by the peak or by reading once
// the operands in memory. A shorter time is a measurement error.
func LeastTime(s results.Series, m int) (us float64, memoryBound bool) {
	us = math.Log(s.Key.FLOPs(m) / s.Peak.FLOPS * 1e6)
	// If a file does not give its regime, operands may have been in a cache.
	fromMemory := s.Key.Regime == results.Engine || s.Key.Regime == results.Cold || s.Key.Regime == "" && s.Bandwidth.Origin == ""
	if s.Bandwidth.Rate > 0 && fromMemory {
		if t := math.Log(s.Key.StoredBytes(m) / s.Bandwidth.Rate * 1e6); t > us {
			return t, true
		}
	}
	return us, false
}
