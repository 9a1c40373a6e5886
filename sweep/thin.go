package sweep

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// steps is how many steps, of the seeds of inferred series or of a plan's traffic, a sweep's deadline
// has room for at least: see [Plan].Step.
const steps = 8

// wholeBatches is the number of Ms of each series that thinning leaves for last:
// those of decoding, of which every one is a product of its own.
const wholeBatches = 16

// thin drops Ms above the 16th of each series until all rounds fit the budget or
// nothing is left to drop. At first those go that lie closer together than a share
// of their size, since the time goes into large Ms and neighbours there are most
// alike, then the largest. Of inferred series, which take no longer for being dense, the
// largest go. Where the traffic is known, the Ms of least traffic go instead. It stops where ctx ends.
func (p *Plan) thin(ctx context.Context, est *Predictor, llc map[string]int64, budget time.Duration) {
	before := p.Rows()
	fits := func() bool { return ctx.Err() != nil || est.Plan(p, nil, llc).Expected <= budget }
	fit := fits()
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
		p.Notes = append(p.Notes, Note{What: "preset " + p.Preset, Why: fmt.Sprintf("%d of %d cases kept to fit %v: --batch names others", after, before, budget)})
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

// lighten drops Ms of least traffic, of equal ones the largest, until the plan fits: first those
// without traffic, then a sixteenth of what is left at a time. A few of each series stay.
func (p *Plan) lighten(fits func() bool) {
	order := make([]Batches, len(p.Series)) // those of most traffic first
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

// noteTraffic says what of the traffic lies beyond the Ms of the plan.
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

// span is all M from from to to.
type span struct{ from, to int }

// spans are the Ms between the first and the last of any series, ascending and disjoint.
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
