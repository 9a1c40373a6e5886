package remedy

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
)

func award(r *Result, cfg rules.Config, contests []*contest) []settled {
	unsteady := 0
	for _, c := range contests {
		if slices.ContainsFunc(c.entries, func(e *entry) bool { return e.remedy.Unsteady }) {
			unsteady++
		}
	}
	if unsteady > 0 {
		r.warn("run",
			"%d of %d executed rows took more than %.4g times as long as in the run, because of other load: their remedies are undecided",
			unsteady, len(contests), 1+cfg.Remedy.Slower)
	}
	byStretch := map[*stretchPlan][]*contest{}
	var order []*stretchPlan
	for _, c := range contests {
		if byStretch[c.stretch] == nil {
			order = append(order, c.stretch)
		}
		byStretch[c.stretch] = append(byStretch[c.stretch], c)
	}
	var out []settled
	for _, s := range order {
		whole, ok := settleStretch(s, byStretch[s])
		if ok {
			out = append(out, whole.cut(byStretch[s])...)
		}
		for _, c := range byStretch[s] {
			m := s.curve.Points[c.point].M
			if ok && whole.FromM <= m && m <= whole.ToM {
				continue
			}
			if row, pays := settleRow(s, c); pays {
				out = append(out, row)
			}
		}
	}
	r.list(contests, out)
	return out
}

func (r *Result) settle(all []settled) {
	for _, s := range all {
		r.Stretches = append(r.Stretches, s.Stretch)
	}
	slices.SortStableFunc(r.Stretches, func(a, b Stretch) int {
		return cmp.Or(cmp.Compare(a.Series.String(), b.Series.String()), cmp.Compare(a.FromM, b.FromM))
	})
}

// settleStretch picks the plan that pays most surely at the anchor, and keeps each side of the stretch whose
// end it pays at too.
func settleStretch(s *stretchPlan, contests []*contest) (settled, bool) {
	standings := make([]standing, len(s.plans))
	best := -1
	for k, p := range s.plans {
		standings[k] = s.standing(p, contests)
	}
	for k := range standings {
		if standings[k].anchored && (best < 0 || standings[k].above(standings[best])) {
			best = k
		}
	}
	if best < 0 {
		return settled{}, false
	}
	// A pad that pays with the copy is kept as copied: spare rows do no harm.
	for k, p := range s.plans {
		if twins(p, s.plans[best]) && p.pad == table.Copied && standings[k].anchored && standings[k].all == standings[best].all {
			best = k
			break
		}
	}
	at := s.curve.Points[s.anchor].M
	st := s.stretch(s.plans[best], at)
	for _, c := range contests {
		if e := c.entry(s.plans[best]); e != nil && e.paying {
			st.FromM, st.ToM = min(st.FromM, e.remedy.M), max(st.ToM, e.remedy.M)
			st.Proofs = append(st.Proofs, e.remedy)
		}
	}
	for _, i := range s.points {
		if m := s.curve.Points[i].M; st.FromM <= m && m <= st.ToM {
			st.Ms = append(st.Ms, m)
		}
	}
	slices.SortFunc(st.Proofs, func(a, b rules.Remedy) int { return a.M - b.M })
	return settled{st, s, s.plans[best]}, true
}

// standing is a plan's result on a stretch: whether it pays at the anchor, whether at every executed row, and
// its least gain.
type standing struct {
	anchored, all bool
	least         float64
}

// above reports whether one plan is preferred to another: a plan that pays on the whole stretch comes first.
func (a standing) above(b standing) bool {
	if a.all != b.all {
		return a.all
	}
	return a.least > b.least
}

func (s *stretchPlan) standing(p plan, contests []*contest) standing {
	out := standing{all: true, least: math.Inf(1)}
	for _, c := range contests {
		e := c.entry(p) // nil if its result was not acceptable
		if e == nil || !e.paying {
			out.all = false
			continue
		}
		out.anchored = out.anchored || c.point == s.anchor
		out.least = math.Min(out.least, e.remedy.Gain.Lo)
	}
	return out
}

// settleRow is the stretch of one row that pays on its own, outside the stretch that a common plan serves.
func settleRow(s *stretchPlan, c *contest) (settled, bool) {
	var best *entry
	for _, e := range c.entries {
		if e.paying && (best == nil || e.remedy.Gain.Lo > best.remedy.Gain.Lo) {
			best = e
		}
	}
	if best != nil { // see settleStretch
		for _, e := range c.entries {
			if e.paying && twins(e.plan, best.plan) && e.plan.pad == table.Copied {
				best = e
			}
		}
	}
	if best == nil {
		return settled{}, false
	}
	st := s.stretch(best.plan, best.remedy.M)
	st.Ms, st.Proofs = []int{best.remedy.M}, []rules.Remedy{best.remedy}
	return settled{st, s, best.plan}, true
}

func (s *stretchPlan) stretch(p plan, m int) Stretch {
	st := Stretch{Series: s.curve.Series.Key, FromM: m, ToM: m, Kind: p.kind, Fixed: p.fixed, PadTo: p.padTo, Pad: p.pad}
	if p.other != nil {
		st.Kernel = p.other.Series.Key.Kernel
	}
	if p.algorithm != (kernels.Algorithm{}) {
		st.Kernel, st.Algorithm = p.library, p.algorithm
	}
	return st
}

// provenRows splits stretches into their proven rows; the rows between rest on the sweep.
func provenRows(stretches []Stretch) []Stretch {
	var out []Stretch
	for _, st := range stretches {
		for _, proof := range st.Proofs {
			row := st
			row.FromM, row.ToM, row.Ms, row.Proofs, row.Filled = proof.M, proof.M, []int{proof.M}, []rules.Remedy{proof}, false
			out = append(out, row)
		}
	}
	return out
}

// entry is a plan's entry, or nil.
func (c *contest) entry(p plan) *entry {
	for _, e := range c.entries {
		if samePlan(e.plan, p) {
			return e
		}
	}
	return nil
}

// beats reports whether a remedy is preferred to another with the same result: the larger gain wins. Of two
// pads that both pay, the copied one wins, because every engine can run it.
func (e *entry) beats(o *entry) bool {
	if e.paying && twins(e.plan, o.plan) {
		return e.plan.pad == table.Copied
	}
	return e.remedy.Gain.Mid > o.remedy.Gain.Mid
}

type settled struct {
	Stretch
	from *stretchPlan
	plan plan
}
