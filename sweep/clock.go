package sweep

import "math"

// clockStep is what reference clocks are rounded to, in MHz. Cards set their clock in
// steps of 15 MHz, and the medians of two sweeps of one card lie a step or two apart:
// most of them get one reference then, and what follows from either is nearly the same.
const clockStep = 50

// referenceClock is the clock at which times of a device are judged, in MHz: the plan's,
// else the median of its sentinels' samples up to the one of number seq in the run, rounded;
// 0 while no clock is known. The sentinels recur through the whole sweep, so that theirs is
// the clock of the sweep.
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
	return math.Round(median(all)/clockStep) * clockStep
}

// storeClock stores the reference clock in the run, if there is one, of what was seen up to a sample's seq. Who chooses rows judges
// them at the one of the samples that it is shown, which a resumed sweep finds again; the clock
// of the last look is that of the audit, so that the two agree on what is known well enough.
func (p *part) storeClock(last int64) error {
	mhz := p.referenceClock(last)
	if mhz <= 0 {
		return nil
	}
	return p.r.Out.SetReferenceClock(p.rig.spec.ID, mhz)
}
