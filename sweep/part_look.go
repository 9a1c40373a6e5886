package sweep

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// look selects, at certain rounds, the stations to measure until the next look; false ends the sweep. It
// depends only on earlier samples, so a resumed sweep selects the same.
//
// Rows from a designer come first. If they are few, they join the chooser's rounds: separate rounds would
// mostly measure control rows. The rounds of [results.Looks] do not count the designer's.
func (p *part) look(round int) (more bool, err error) {
	if round < p.until {
		return true, nil
	}
	if p.design == nil && (p.r.Chooser == nil || round >= p.r.Plan.Rounds) {
		return false, nil
	}
	if err := p.rig.land(); err != nil {
		return false, err
	}
	p.looked = true
	clear(p.open)
	earlier, err := p.before(round)
	if err != nil {
		return false, err
	}
	shown := int64(math.MinInt64)
	for _, s := range earlier {
		shown = max(shown, s.Seq)
	}
	if err := p.storeClock(shown); err != nil {
		return false, err
	}
	added, more, err := p.extend(round, earlier)
	if more || err != nil {
		return more, err
	}
	more, err = p.choose(round, earlier)
	if more || err != nil {
		return more, err
	}
	return p.complete(round, added), nil
}

// before reads earlier samples from the run file, about a second per million. Looks are few, and this saves
// memory between them.
func (p *part) before(round int) ([]results.Sample, error) {
	samples, err := p.r.Out.Samples(results.PhaseSweep)
	return slices.DeleteFunc(samples, func(s results.Sample) bool {
		_, mine := p.index[s.CaseID]
		return s.Round >= round || !mine
	}), err
}

func (p *part) choosing(round int) bool {
	return p.r.Chooser != nil && round-p.designRounds() < p.r.Plan.Rounds
}

func (p *part) choose(round int, earlier []results.Sample) (more bool, err error) {
	if !p.choosing(round) {
		return false, nil
	}
	counted := round - p.designRounds()
	began := p.r.Now()
	ids, err := p.r.Chooser.Open(p.cases, earlier)
	p.rig.watch.took(&p.rig.watch.Chooser, began)
	if err != nil {
		return false, fmt.Errorf("choosing the cases of round %d: %w", round, err)
	}
	if len(ids) > 0 {
		p.until = min(results.NextLook(counted), p.r.Plan.Rounds) + p.designRounds()
	}
	for _, id := range ids {
		if i, ok := p.index[id]; ok && !p.gone[i] {
			p.open[i], more = true, true
		}
	}
	p.plan(round)
	return more, nil
}
