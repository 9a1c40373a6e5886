package sweep

import (
	"fmt"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
)

// Controls is implemented by choosers with control rows. Every round measures these, which tells a slow round
// from slow rows.
type Controls interface {
	// Controls returns the ids of the control rows among cases. It must be deterministic.
	Controls(cases []results.Case) []int64
}

// design decides when a device's inferred rows, and all rows of a staged plan, are measured.
type design struct {
	plan    *Plan // of the device
	choices map[results.SeriesKey]results.Choices
	waiting []results.Case // the most informative ones first
	lead    int            // size of the first step; 0 means as many as fit
	leading bool           // only the first step was taken
	rounds  int            // used by rows of later steps so far
}

func (p *part) designRounds() int {
	if p.design == nil {
		return 0
	}
	return p.design.rounds
}

func (p *part) deadline() time.Duration {
	d := p.r.Plan.Deadline
	if d > 0 && p.design != nil && p.design.leading {
		return max(d, p.r.Plan.Lead)
	}
	return d
}

func (p *part) seed(choices map[results.SeriesKey]results.Choices) error {
	plan := p.r.Plan.of(p.rig.spec.ID)
	if len(plan.Series) == 0 || !plan.Infers() && !plan.staged() {
		return nil
	}
	var seeds Seeds
	if plan.Infers() {
		if p.r.Designer == nil {
			return fmt.Errorf("the plan infers rows of series on %s, and nothing chooses those that are measured", p.rig.spec.ID)
		}
		var err error
		if seeds, err = plan.Seeds(p.r.Designer, choices); err != nil {
			return err
		}
	}
	p.design = &design{plan: plan, choices: choices}
	if len(plan.Recorded) > 0 && !plan.Infers() {
		p.design.waiting, p.design.lead = plan.ranked(p.r.est)
	} else {
		p.design.waiting = plan.waiting(seeds, choices)
	}
	return p.join(p.step(nil), 0)
}

// step takes the next waiting rows, as many as the plan's Step allows, by predictions corrected with the
// earlier samples. The first step of a recorded workload is only its lead, since the error of the predictions
// is still unknown.
func (p *part) step(earlier []results.Sample) []results.Case {
	d, most := p.design, p.r.Plan.Step
	if d.lead > 0 {
		step := d.waiting[:d.lead]
		d.waiting, d.lead, d.leading = d.waiting[d.lead:], 0, true
		return step
	}
	d.leading = false
	off := p.off(earlier)
	var takes time.Duration
	n := 0
	for ; n < len(d.waiting); n++ {
		c := d.waiting[n]
		takes += p.r.Plan.blockOf(p.r.est.Launch(c)*off.factor(c)) * time.Duration(p.certain())
		if n > 0 && most > 0 && takes > most {
			break
		}
	}
	step := d.waiting[:n]
	d.waiting = d.waiting[n:]
	return step
}

func (p *part) join(cases []results.Case, round int) error {
	cases, err := p.r.Out.AddCases(cases)
	if err != nil {
		return err
	}
	for _, c := range cases {
		if _, there := p.index[c.ID]; there {
			continue
		}
		p.r.mu.Lock()
		p.r.device[c.ID] = c.Device
		p.r.mu.Unlock()
		p.add(c, round)
	}
	p.regroup()
	return nil
}

// ownShare is the minimum share of added rows for separate rounds.
const ownShare = 1. / 8

// fewestControls is the minimum number of control rows in such rounds.
const fewestControls = 8

// extend adds the next step or, if no rows wait, the designer's requests. own is true if the rounds until the
// next look measure only these and control rows.
func (p *part) extend(round int, earlier []results.Sample) (added int, own bool, err error) {
	if p.design == nil {
		return 0, false, nil
	}
	before := len(p.cases)
	next := p.step(earlier)
	if own = len(next) > 0; !own {
		if next, err = p.more(earlier); err != nil {
			return 0, false, fmt.Errorf("choosing the rows of round %d: %w", round, err)
		}
		if p.design.plan.staged() {
			p.design.plan.byTraffic(next)
			p.design.waiting = next
			next = p.step(earlier)
		}
		own = !p.choosing(round) || float64(len(next)) >= ownShare*float64(before)
	}
	if err := p.join(next, round); err != nil || len(p.cases) == before {
		return 0, false, err
	}
	added = len(p.cases) - before
	p.inferred = max(0, p.inferred-added) // unknown until they have been measured
	for i, c := range p.cases[before:] {
		loaded := p.group == nil || p.group[before+i] == p.loadedG
		if !p.rig.holds(c) || loaded && p.rig.sets[matrixOf(c)] == nil {
			p.loadedG = -1
		}
	}
	if own {
		p.own(round, added)
	}
	return added, own, nil
}

func (p *part) own(round, added int) {
	if of, ok := p.r.Chooser.(Controls); ok {
		ids := of.Controls(p.cases[:len(p.cases)-added])
		most := min(len(ids), max(fewestControls, added))
		for k := range most {
			if i, ok := p.index[ids[k*len(ids)/most]]; ok && !p.gone[i] {
				p.open[i] = true
			}
		}
	}
	p.design.rounds += p.certain()
	p.until = round + p.certain()
	p.plan(round)
}

// complete begins rounds for stations that lack guaranteed rounds, if the chooser opens none.
func (p *part) complete(round, added int) bool {
	if p.design == nil {
		return false
	}
	lacking := 0
	for _, joined := range p.joined {
		lacking = max(lacking, joined+p.certain()-round)
	}
	if lacking == 0 {
		return false
	}
	if added > 0 {
		p.own(round, added)
		return true
	}
	p.design.rounds += lacking
	p.until = round + lacking
	p.plan(round)
	return true
}

// more asks the designer for further rows, and updates the known counts.
func (p *part) more(earlier []results.Sample) ([]results.Case, error) {
	d, began := p.design, p.r.Now()
	if !d.plan.Infers() {
		return nil, nil
	}
	more, inferred, err := p.r.Designer.More(d.plan.inferred(), d.choices, p.cases, earlier)
	p.rig.watch.took(&p.rig.watch.Chooser, began)
	if err != nil {
		return nil, err
	}
	p.inferred = inferred
	return d.planned(more)
}

func (d *design) planned(cases []results.Case) ([]results.Case, error) {
	ms := map[results.SeriesKey]Batches{}
	for _, s := range d.plan.inferred() {
		ms[s.SeriesKey] = s.Ms
	}
	for _, c := range cases {
		if len(c.Parts) > 0 || c.PadTo > 0 || !ms[c.SeriesKey].Has(c.M) {
			return nil, fmt.Errorf("%v is not in an inferred series of the plan", c)
		}
	}
	return cases, nil
}

func (p *part) known() Known {
	k := Known{Rows: len(p.cases), Measured: p.measured}
	if p.design != nil {
		k.Rows, k.Inferred = p.design.plan.Rows(), p.inferred
	}
	return k
}
