package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
)

// CommonClock brings single samples of a run to the clocks at which its rows are judged.
type CommonClock struct {
	clocks map[string]float64 // in MHz, by device
	betas  map[int64]float64  // by the ids of cases
}

// NewCommonClock fits how the time of each row follows the clock.
func NewCommonClock(data Data, cfg Config) CommonClock {
	out := CommonClock{referenceClocks(data, cfg), map[int64]float64{}}
	for _, c := range prepareAt(data, out.clocks).curves {
		if !c.clocked {
			continue
		}
		for i := range c.points {
			if p := &c.points[i]; !p.inferred {
				out.betas[c.series.Rows[p.row].Case.ID] = p.elastic.beta
			}
		}
	}
	return out
}

// At is the time of a sample of a case in microseconds at the clock at which the case is judged, and that clock in MHz. It
// is 0, 0 where the sample tells no clock, and for cases that no curve has, such as those of remedies.
func (c CommonClock) At(of results.Case, s results.Sample) (us, mhz float64) {
	beta, ok := c.betas[of.ID]
	mhz = c.clocks[of.Device]
	if !ok || mhz <= 0 || !clocked(&s) || !usable(&s) {
		return 0, 0
	}
	return math.Exp(atClock(s, beta, mhz)), mhz
}
