package sweep

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// look decides, at the rounds that it sets itself, which stations are measured until the next
// of them; false ends the sweep. What is decided depends on the samples of the rounds before,
// so that a resumed sweep decides alike.
//
// First come the rows that a designer asks for, which get as many rounds as the screening
// has. Where they are few beside those that there are, they go along with what the chooser
// opens: in rounds of their own, most blocks would be those of control rows. The chooser
// looks at the rounds of [results.Looks]; those of the designer are not counted among them.
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

// before lists the samples of the rounds before one, of the stations. They come from the run file each time, which takes
// a second for a million of them: looks are few, and memory stays as it was between them.
func (p *part) before(round int) ([]results.Sample, error) {
	samples, err := p.r.Out.Samples(results.PhaseSweep)
	return slices.DeleteFunc(samples, func(s results.Sample) bool {
		_, mine := p.index[s.CaseID]
		return s.Round >= round || !mine
	}), err
}

// choosing says whether the chooser still has rounds to give.
func (p *part) choosing(round int) bool {
	return p.r.Chooser != nil && round-p.designRounds() < p.r.Plan.Rounds
}

// choose has the chooser open stations for the rounds until its next look.
func (p *part) choose(round int, earlier []results.Sample) (more bool, err error) {
	if !p.choosing(round) {
		return false, nil
	}
	counted := round - p.designRounds() // that the chooser knows of
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
