package sweep

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// clockStep is the rounding of reference clocks, in MHz. Cards have steps of 15 MHz, and the medians of two
// sweeps differ by one or two.
const clockStep = 50

// referenceClock is the clock in MHz at which times are judged: the plan's, else the rounded median of the
// sentinels' samples up to number seq, or 0 if unknown.
func (p *part) referenceClock(seq int64) float64 {
	if mhz := p.r.Plan.ReferenceClock; mhz > 0 {
		return mhz
	}
	var all []float64
	for _, g := range p.sentinels {
		for _, c := range g.mhz {
			if c.seq <= seq {
				all = append(all, c.mhz)
			}
		}
	}
	if len(all) == 0 {
		return 0
	}
	return math.Round(stats.Median(all)/clockStep) * clockStep
}

// storeClock stores the reference clock of the samples up to seq last. The chooser judges by it, and a
// resumed sweep and the audit find it again.
func (p *part) storeClock(last int64) error {
	mhz := p.referenceClock(last)
	if mhz <= 0 {
		return nil
	}
	return p.r.Out.SetReferenceClock(p.rig.spec.ID, mhz)
}
