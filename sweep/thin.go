package sweep

import (
	"fmt"
	"slices"
	"time"
)

// steps is how many steps of the seeds of inferred series a sweep's deadline has room for at
// least: see [Plan].Step.
const steps = 8

// wholeBatches is the number of Ms of each series that thinning leaves for last:
// those of decoding, of which every one is a product of its own.
const wholeBatches = 16

// thin drops Ms above the 16th of each series until all rounds fit the budget or
// nothing is left to drop. At first those go that lie closer together than a share
// of their size, since the time goes into large Ms and neighbours there are most
// alike, then the largest. Of inferred series, which take no longer for being dense, the
// largest go.
func (p *Plan) thin(est *Predictor, llc map[string]int64, budget time.Duration) {
	before := p.Rows()
	fits := func() bool { return est.Plan(p, nil, llc).Expected <= budget }
	fit := fits()
	for spread := 1.0 / 64; !fit && spread <= 1.0/8; spread *= 2 {
		for i := range p.Series {
			if !p.Series[i].Infer {
				p.Series[i].Ms = spaced(p.Series[i].Ms, spread)
			}
		}
		fit = fits()
	}
	for !fit {
		changed := false
		for i := range p.Series {
			if n := fewer(p.Series[i]); n < len(p.Series[i].Ms) {
				p.Series[i].Ms, changed = p.Series[i].Ms[:n:n], true
			}
		}
		if !changed {
			break
		}
		fit = fits()
	}
	if after := p.Rows(); after < before {
		p.Notes = append(p.Notes, fmt.Sprintf("preset %s: %d of %d cases kept to fit %v: --batch names others", p.Preset, after, before, budget))
	}
}

// fewer is how many Ms of a series remain when the largest go: one of those that are measured,
// and of an inferred series what lies above fifteen sixteenths of the largest. A few stay.
func fewer(s PlannedSeries) int {
	n := len(s.Ms)
	if !s.Infer {
		return max(min(n, 4), n-1)
	}
	kept, _ := slices.BinarySearch(s.Ms, s.Ms[n-1]*15/16)
	return max(min(n, leastInferred), min(kept, n-1))
}

// spaced keeps the first Ms, the last, and of those between whatever is larger
// than the one before by at least the share spread.
func spaced(ms Batches, spread float64) Batches {
	if len(ms) <= wholeBatches+1 {
		return ms
	}
	kept := slices.Clone(ms[:wholeBatches])
	last := len(ms) - 1
	for _, m := range ms[wholeBatches:last] {
		if float64(m) >= float64(kept[len(kept)-1])*(1+spread) {
			kept = append(kept, m)
		}
	}
	return append(kept, ms[last])
}
