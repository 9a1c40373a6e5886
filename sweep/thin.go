package sweep

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// steps is the minimum number of steps that fit a sweep's deadline. See [Plan].Step.
const steps = 8

// wholeBatches is the number of Ms of each series that thinning drops last: the decode sizes.
const wholeBatches = 16

// thin drops Ms above the 16th of each series until all rounds fit the budget. Ms closer together than a
// share of their size go first, since large Ms take most of the time and are most alike; then those at the
// smallest gaps. Inferred series lose the largest Ms, since density costs no time there. With known traffic,
// Ms of least traffic go first, and in a recorded workload the least informative. A deadline's cut is a field
// of the plan; a preset's, and that of a budget that the caller chose, is a note.
func (p *Plan) thin(ctx context.Context, est *Predictor, llc map[string]int64, budget time.Duration, o *Options) {
	deadline := o.Deadline > 0
	before, requested := p.Rows(), slices.Clone(p.Series)
	fits := func() bool {
		e := est.Plan(p, nil, llc)
		needs := e.Expected
		if deadline && !p.Infers() && len(p.Recorded) == 0 { // the deadline ends the rounds after the screening
			needs = e.Screening
		}
		return ctx.Err() != nil || needs <= budget
	}
	fit := fits()
	if !fit && len(p.Recorded) > 0 {
		p.keepWorth(est, fits)
		fit = true
	}
	if !fit && len(p.Traffic) > 0 {
		p.lighten(fits)
		fit = true
	}
	for spread := 1.0 / 64; !fit && spread <= 1.0/8; spread *= 2 {
		for i := range p.Series {
			if !p.Series[i].Infer {
				p.Series[i].Ms = spaced(p.Series[i].Ms, spread)
			}
		}
		fit = fits()
	}
	if !fit {
		p.sparse(fits)
	}
	if !fit && deadline {
		p.heaviest(est, fits)
	}
	if after := p.Rows(); after < before {
		if deadline && o.Budget == 0 {
			p.Cut = results.CutTo(p.Series, requested, p.Recorded)
			p.Cut.Asked, p.Cut.Planned = before, after
			return
		}
		more := "--batch names others"
		if len(p.Recorded) > 0 {
			more = "a longer --deadline has room for more"
		}
		p.Notes = append(p.Notes,
			Note{What: "preset " + p.Preset, Why: fmt.Sprintf("%d of %d cases kept to fit %v: %s", after, before, budget, more)})
	}
}

// spreadPast is the share of a deadline beyond which a plan is measured step by step: estimates are off by
// that much on a shared machine.
const spreadPast = 1. / 3

// spreadSteps replaces [steps] in a spread plan, since each step measures earlier rows again for comparison.
const spreadSteps = 4

func (p *Plan) spread(est *Predictor, llc map[string]int64) {
	if p.Spread = float64(est.Plan(p, nil, llc).Screening) > spreadPast*float64(p.Deadline); p.Spread {
		p.Step = p.Deadline / spreadSteps
	}
}

// sparse keeps as many Ms of each series as fit: the ends and the Ms that halve the gaps, or the smallest of
// an inferred series.
func (p *Plan) sparse(fits func() bool) {
	all := make([]Batches, len(p.Series)) // the Ms of a series, in reverse order of removal
	least, most := make([]int, len(p.Series)), 0
	for i, s := range p.Series {
		all[i], least[i] = slices.Clone(s.Ms), leastInferred
		if !s.Infer {
			h := halvings(len(s.Ms))
			order := make([]int, len(s.Ms))
			for j := range order {
				order[j] = j
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(h[a].rank, h[b].rank) })
			for j, at := range order {
				all[i][j] = s.Ms[at]
			}
			least[i] = leastSpread
		}
		most = max(most, len(s.Ms))
	}
	keep := func(share int) {
		for i := range p.Series {
			n := len(all[i])
			n = min(n, max(least[i], n*share/most))
			p.Series[i].Ms = slices.Sorted(slices.Values(all[i][:n]))
		}
	}
	share := sort.Search(most, func(n int) bool {
		keep(n + 1)
		return !fits()
	})
	keep(share)
}

// heaviest keeps the products with the most time, as many as fit.
func (p *Plan) heaviest(est *Predictor, fits func() bool) {
	type product struct {
		kernels.Subject // with any data type
		takes           float64
	}
	without := func(s PlannedSeries) kernels.Subject {
		s.DType = ""
		return s.Subject
	}
	var products []product
	for _, s := range p.Series {
		of := without(s)
		i := slices.IndexFunc(products, func(have product) bool { return have.Subject == of })
		if i < 0 {
			i, products = len(products), append(products, product{Subject: of})
		}
		products[i].takes = max(products[i].takes, est.Launch(s.Case(s.Ms[len(s.Ms)-1])))
	}
	slices.SortStableFunc(products, func(a, b product) int { return cmp.Compare(b.takes, a.takes) })
	for kept := len(products); kept > 1 && !fits(); kept-- {
		p.Series = slices.DeleteFunc(p.Series, func(s PlannedSeries) bool { return without(s) == products[kept-1].Subject })
	}
}

const leastSpread = 3

// spaced keeps the first Ms, the last, and those that exceed the previous one by at least the share spread.
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

// lighten drops Ms without traffic, then a sixteenth of the rest with the least at a time, the largest first
// among equals. A few of each series stay.
func (p *Plan) lighten(fits func() bool) {
	order := make([]Batches, len(p.Series)) // Ms by descending traffic
	keep := make([]int, len(p.Series))
	for i, s := range p.Series {
		order[i] = slices.Clone(s.Ms)
		slices.SortStableFunc(order[i], func(a, b int) int { return cmp.Compare(p.Traffic.Weight(b), p.Traffic.Weight(a)) })
		keep[i] = len(s.Ms)
	}
	take := func(next func(i int) int) (changed bool) {
		for i := range p.Series {
			s := &p.Series[i]
			least := 4
			if s.Infer {
				least = leastInferred
			}
			n := max(min(keep[i], least), next(i))
			if n >= keep[i] {
				continue
			}
			keep[i], changed = n, true
			s.Ms = slices.Clone(order[i][:n])
			slices.Sort(s.Ms)
		}
		return changed
	}
	take(func(i int) int {
		none := slices.IndexFunc(order[i], func(m int) bool { return p.Traffic.Weight(m) == 0 })
		if none < 0 {
			return keep[i]
		}
		return none
	})
	for !fits() {
		if !take(func(i int) int { return keep[i] - (keep[i]+15)/16 }) {
			return
		}
	}
}

func (b *planner) noteTraffic() {
	covered := b.plan.spans()
	missed, all, count := 0.0, 0.0, 0
	for _, l := range b.plan.Traffic {
		all += l.Weight
		at, _ := slices.BinarySearchFunc(covered, l.M, func(s span, m int) int { return cmp.Compare(s.to, m) })
		if l.Weight > 0 && (at == len(covered) || l.M < covered[at].from) {
			missed, count = missed+l.Weight, count+1
		}
	}
	if count > 0 {
		b.note("traffic", "%d of its %d Ms lie beyond the plan's, with %.1f %% of the weight", count, len(b.plan.Traffic), 100*missed/all)
	}
}

type span struct{ from, to int }

// spans returns the ranges between the first and last M of any series, ascending and disjoint.
func (p *Plan) spans() []span {
	var all, out []span
	for i := range p.Series {
		ms := p.Series[i].Ms
		all = append(all, span{ms[0], ms[len(ms)-1]})
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range all {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}
