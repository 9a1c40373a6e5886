package sweep

import (
	"fmt"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
)

// Controls is implemented by choosers that name the rows which every round measures, by which
// a slow round is told from slow rows.
type Controls interface {
	// Controls returns the ids of those of the cases. It answers equal questions equally.
	Controls(cases []results.Case) []int64
}

// design is how the rows of a device's inferred series, and all rows of a staged plan, come to be
// measured.
type design struct {
	plan    *Plan // of the device
	choices map[results.SeriesKey]results.Choices
	waiting []results.Case // those that tell most first
	rounds  int            // that the rows of later steps have taken so far
}

// designRounds is how many rounds were for rows that were added after the first step.
func (p *part) designRounds() int {
	if p.design == nil {
		return 0
	}
	return p.design.rounds
}

// seed sets up the design and takes the rows of the first step in.
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
	p.design = &design{plan: plan, choices: choices, waiting: plan.waiting(seeds, choices)}
	return p.join(p.step(), 0)
}

// step takes the rows of the next step from those that wait: as many as the plan's Step
// allows for, one at least.
func (p *part) step() []results.Case {
	d, most := p.design, p.r.Plan.Step
	var takes time.Duration
	n := 0
	for ; n < len(d.waiting); n++ {
		takes += p.r.est.Block(p.r.Plan, d.waiting[n]) * time.Duration(p.certain())
		if n > 0 && most > 0 && takes > most {
			break
		}
	}
	step := d.waiting[:n]
	d.waiting = d.waiting[n:]
	return step
}

// join stores cases and takes them in as stations that are measured from a round on.
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

// ownShare is the share of the stations that rows must come to for rounds of their own.
const ownShare = 1. / 8

// fewestControls is how many control rows such rounds have at least, where there are as many.
const fewestControls = 8

// extend takes in the rows of the next step or, when none wait, what the designer asks for:
// so many stations are added. own says that the rounds until the next look are theirs, which
// they share with control rows.
func (p *part) extend(round int, earlier []results.Sample) (added int, own bool, err error) {
	if p.design == nil {
		return 0, false, nil
	}
	before := len(p.cases)
	next := p.step()
	if own = len(next) > 0; !own {
		if next, err = p.more(earlier); err != nil {
			return 0, false, fmt.Errorf("choosing the rows of round %d: %w", round, err)
		}
		if p.design.plan.staged() {
			p.design.plan.byTraffic(next)
			p.design.waiting = next
			next = p.step()
		}
		own = !p.choosing(round) || float64(len(next)) >= ownShare*float64(before)
	}
	if err := p.join(next, round); err != nil || len(p.cases) == before {
		return 0, false, err
	}
	added = len(p.cases) - before
	p.inferred = max(0, p.inferred-added) // until they are measured, nothing is known of them
	for _, c := range p.cases[before:] {
		if !p.rig.holds(c) {
			p.loadedG = -1 // so that A and C are made larger
		}
	}
	if own {
		p.own(round, added)
	}
	return added, own, nil
}

// own begins rounds for the stations that were added last, and control rows.
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

// complete begins rounds for stations that lack some of the rounds that every station gets,
// those that were added last among them, where the chooser opens nothing; false when there
// are none.
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

// more asks the designer for further rows, and notes how much is known.
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

// planned refuses rows that are not in the inferred series of the plan.
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

// known is what is known of the part's rows.
func (p *part) known() Known {
	k := Known{Rows: len(p.cases), Measured: p.measured}
	if p.design != nil {
		k.Rows, k.Inferred = p.design.plan.Rows(), p.inferred
	}
	return k
}
