package remedy

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/search"
)

// plan is one way to compute the rows of a stretch: the same for all of them except the part of a split that
// varies with M.
type plan struct {
	kind rules.RemedyKind
	// fixed are the parts of a split that do not vary; the rest of M is one more part.
	fixed []int
	padTo int
	pad   table.PadKind
	other *infer.Curve // the series of the kernel to switch to
	// label is an algorithm's name. The number of the library's choice that runs it can differ between Ms.
	// Empty if only the number is known.
	label string
	// choices are the series of the library's choices, the first included.
	choices []*infer.Curve
	// library and algorithm are set once the library has reported the attributes.
	library   string
	algorithm kernels.Algorithm
}

// remedy is the plan for one M; ok is false if it does not apply there.
func (p plan) remedy(m int) (r rules.Remedy, ok bool) {
	r = rules.Remedy{Kind: p.kind, M: m}
	switch p.kind {
	case rules.RemedySplit:
		rest := m
		for _, part := range p.fixed {
			rest -= part
		}
		if rest < 1 {
			return r, false
		}
		r.Parts = append(slices.Clone(p.fixed), rest)
	case rules.RemedyPad, rules.RemedyPadN, rules.RemedyPadK:
		if p.padTo <= m {
			return r, false
		}
		r.PadTo, r.Pad = p.padTo, p.pad
	case rules.RemedyOther:
		r.Kernel = p.other.Series.Key.Kernel
	case rules.RemedyAlgorithm:
		if r.Kernel = p.other.Series.Key.Kernel; p.algorithm != (kernels.Algorithm{}) {
			r.Kernel, r.Algorithm = p.library, p.algorithm
		}
	}
	return r, true
}

// predict is the time of a row under the plan, in microseconds at the common clock:
// mid from the estimates, high from upper bounds.
func (p plan) predict(f *rules.Facts, c *infer.Curve, m int) (mid, high float64) {
	r, ok := p.remedy(m)
	if !ok {
		return math.Inf(1), math.Inf(1)
	}
	add := func(from *infer.Curve, m int) {
		i, ok := from.At(m)
		if !ok {
			mid, high = math.Inf(1), math.Inf(1)
			return
		}
		mid, high = mid+math.Exp(from.Points[i].US.Y), high+math.Exp(f.Upper[from][i])
	}
	switch p.kind {
	case rules.RemedySplit:
		for _, part := range r.Parts {
			add(c, part)
		}
	case rules.RemedyPad, rules.RemedyPadN, rules.RemedyPadK:
		add(c, r.PadTo)
		if p.pad == table.Copied {
			us := copyUS(c.Series, m)
			mid, high = mid+us, high+us
		}
	case rules.RemedyOther:
		add(p.other, m)
	case rules.RemedyAlgorithm:
		from := runningAt(f, p, m)
		if from == nil {
			return math.Inf(1), math.Inf(1)
		}
		add(from, m)
	}
	return mid, high
}

// stretchPlan is rows of one series that one plan would serve, with the plans that compete on all of these
// rows.
type stretchPlan struct {
	curve  *infer.Curve
	points []int // ascending
	anchor int   // the row with the largest predicted gain
	plans  []plan
	saving float64 // predicted share of time, summed over the rows
}

type remedySearch struct {
	f      *rules.Facts
	c      *infer.Curve
	search *search.Partition
	above  []int
	ratio  float64
	parts  int
	all    bool // by estimates, and every plan competes
	o      Options
}

func newRemedySearch(f *rules.Facts, c *infer.Curve, o Options) *remedySearch {
	cost, ms := make([]float64, len(c.Points)), make([]int, len(c.Points))
	for i, u := range f.Upper[c] {
		cost[i], ms[i] = math.Exp(u), c.Points[i].M
	}
	return &remedySearch{f: f, c: c, search: search.New(ms, cost, o.MaxParts), above: search.CheapestAbove(f.Upper[c]), ratio: o.Ratio,
		parts: o.MaxParts, all: o.Candidates == CandidatesAll, o: o}
}

// plansFor lists the plans for a point, best prediction by bounds first within each kind.
func (pl *remedySearch) plansFor(i int) []plan {
	var out []plan
	split := func(k int) []int {
		parts, _ := pl.search.Parts(i, k)
		if parts == nil || slices.ContainsFunc(out, func(p plan) bool {
			return p.kind == rules.RemedySplit &&
				len(p.fixed) == len(parts)-1
		}) {
			return nil
		}
		// The largest part varies along the stretch.
		out = append(out, plan{kind: rules.RemedySplit, fixed: parts[:len(parts)-1]})
		return parts
	}
	divisible := pl.c.Series.Key.Divisible() && pl.o.seeks(rules.RemedySplit)
	if divisible {
		split(2)
	}
	if divisible && pl.parts > 2 {
		split(pl.parts)
	}
	kind, pads := PadsAlong(pl.c.Series.Key.Subject), pl.o.Pads
	if pl.c.Series.Key.Groups > 0 {
		pads = PadsInPlace // sorting the rows by group puts them in their places
	}
	if b := pl.above[i]; kind != "" && pl.o.seeks(kind) && pl.c.Series.Key.Paddable() && b >= 0 && !math.IsInf(pl.f.Upper[pl.c][b], 1) {
		// Among equally fast plans the first wins: a copied pad, which every engine can run. Padding along N
		// leaves the activations as they are.
		if kind == rules.RemedyPadK || kind == rules.RemedyPad && pads != PadsInPlace {
			out = append(out, plan{kind: kind, padTo: pl.c.Points[b].M, pad: table.Copied})
		}
		if kind != rules.RemedyPad || pads != PadsCopied {
			out = append(out, plan{kind: kind, padTo: pl.c.Points[b].M, pad: table.InPlace})
		}
	}
	if other, at := pl.f.BestElsewhere(pl.c, pl.c.Points[i].M, pl.takes); other != nil {
		out = append(out, otherPlan(other, at, pl.f.Elsewhere(pl.c)))
	}
	return out
}

func (pl *remedySearch) takes(other *infer.Curve) bool {
	key := other.Series.Key
	return pl.o.seeks(otherKind(other)) && pl.o.engine(key.Device, key.Kernel)
}

// saving is the predicted share of a row's time that a plan saves, 0 if it is less than required.
func (pl *remedySearch) saving(p plan, i int) float64 {
	pt := pl.c.Points[i]
	mid, high := p.predict(pl.f, pl.c, pt.M)
	direct := math.Exp(pt.US.Y)
	// Uses bounds: some of thousands of estimates predict a gain by chance.
	if !pl.all && high >= pl.ratio*math.Exp(pt.US.Y-pl.f.Half(pt.US)) || !(mid < pl.ratio*direct) {
		return 0
	}
	return 1 - mid/direct
}

// nearShare is the least share of a row's best predicted saving for a plan to serve the row. One action for a
// whole stretch is worth a little time, and the difference of two predictions is partly noise.
const nearShare = 0.7

// stretches covers the rows that need a remedy, greedily: the row with the largest gain picks its plan, which
// extends to both sides while it is near the best; then the next row.
func (pl *remedySearch) stretches(among []bool) []*stretchPlan {
	n := len(pl.c.Points)
	best := make([]float64, n)
	plans := make([][]plan, n)
	var order []int
	for i := range n {
		if among != nil && !among[i] || !pl.c.Points[i].Judged(pl.f.Cfg.MinSamples) {
			continue
		}
		plans[i] = pl.plansFor(i)
		for _, p := range plans[i] {
			best[i] = math.Max(best[i], pl.saving(p, i))
		}
		if best[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case best[a] > best[b]:
			return -1
		case best[a] < best[b]:
			return 1
		}
		return a - b
	})
	serves := func(p plan, i int) bool {
		if i < 0 || i >= n || best[i] <= 0 {
			return false
		}
		saving := pl.saving(p, i)
		return saving > 0 && saving >= nearShare*best[i]
	}
	var out []*stretchPlan
	for _, anchor := range order {
		if best[anchor] <= 0 {
			continue
		}
		var s *stretchPlan
		for _, p := range plans[anchor] {
			if !serves(p, anchor) {
				continue
			}
			from, to := anchor, anchor
			for serves(p, from-1) {
				from--
			}
			for serves(p, to+1) {
				to++
			}
			var sum float64
			var points []int
			for i := from; i <= to; i++ {
				sum += pl.saving(p, i)
				points = append(points, i)
			}
			if s == nil || sum > s.saving {
				s = &stretchPlan{curve: pl.c, points: points, anchor: anchor, plans: []plan{p}, saving: sum}
			}
		}
		if s == nil {
			continue
		}
		// Other plans compete if they serve every row of the stretch.
		for _, p := range plans[anchor] {
			if samePlan(p, s.plans[0]) {
				continue
			}
			all := true
			for _, i := range s.points {
				all = all && pl.saving(p, i) > 0
			}
			if all && (pl.all || twins(p, s.plans[0]) || pl.rivals(p, s.plans[0], anchor)) {
				s.plans = append(s.plans, p)
			}
		}
		for _, i := range s.points {
			best[i] = 0
		}
		out = append(out, s)
	}
	return out
}

// rivalMargin is the error of a prediction beyond its bounds, as a share of the time: a launch next to
// another differs from a launch alone.
const rivalMargin = 0.005

func (pl *remedySearch) rivals(a, b plan, i int) bool {
	m := pl.c.Points[i].M
	mid, high := a.predict(pl.f, pl.c, m)
	_, other := b.predict(pl.f, pl.c, m)
	return 2*mid-high <= other*(1+rivalMargin)
}

func twins(a, b plan) bool {
	return a.kind.Pads() && b.kind == a.kind && a.padTo == b.padTo && a.pad != b.pad
}

func samePlan(a, b plan) bool {
	return a.kind == b.kind && a.padTo == b.padTo && a.pad == b.pad && a.other == b.other && a.label == b.label &&
		slices.Equal(a.fixed, b.fixed)
}

func findRemedies(ctx context.Context, r *Result, data infer.Data, cfg rules.Config, o Options, m rules.Measurer) error {
	cfg.Threshold = o.Threshold
	p := infer.Prepare(data, cfg.Basis())
	r.Invalid = p.Invalid(p.Resolve(cfg.Basis()), cfg.Basis())
	f := rules.NewFacts(p, cfg)
	var flags rules.Panel
	if o.Among == AmongFlagged {
		flags = f.PanelOf(rules.Monotonic)
	}
	var found []*stretchPlan
	r.Scope = &Scope{Among: o.Among, Kinds: slices.DeleteFunc(slices.Clone(o.Kinds), func(k rules.RemedyKind) bool {
		return k.PadsWeights() && !slices.ContainsFunc(p.Curves, func(c *infer.Curve) bool { return PadsAlong(c.Series.Key.Subject) == k })
	})}
	for at, c := range p.Curves {
		if ctx.Err() != nil {
			break // the caller learns from ctx that the result is incomplete
		}
		if c.Unjudged || !o.has(c.Series.Key.Kernel) {
			continue
		}
		r.Scope.Few += r.warnFew(c, cfg.MinSamples)
		var among []bool
		if o.Among == AmongFlagged {
			among = make([]bool, len(c.Points))
			for i := range flags.Rows[at] {
				among[i] = flags.Rows[at][i].Verdict == rules.Anomalous
			}
		}
		for i, pt := range c.Points {
			if (among == nil || among[i]) && pt.Judged(cfg.MinSamples) {
				r.Scope.Rows++
			}
		}
		pl := newRemedySearch(f, c, o)
		if pl.search.Cut {
			r.warn(c.Series.Key.String(), "the search for splits in more than two parts was cut short: better ones may exist")
		}
		found = append(found, pl.stretches(among)...)
	}
	suspected, _ := rules.Suspects(p,
		cfg.Only(slices.DeleteFunc(cfg.On(), func(r rules.Rule) bool { return !slices.Contains(o.Kinds, remedyOf[r]) })...))
	r.Suspected = slices.DeleteFunc(suspected, func(f rules.Finding) bool { return !o.has(f.Series.Kernel) })
	var err error
	if m == nil {
		for _, s := range found {
			for _, i := range s.points {
				r.Splits = append(r.Splits, Row{s.curve.Series.Key, s.predicted(f, s.plans[0], i)})
			}
		}
	} else {
		err = execute(ctx, r, f, found, o, m)
		if r.Invalid != "" && len(r.Stretches) > 0 {
			r.warn("run", "the sweep is unreliable, so a remedy covers only executed rows: %s", r.Invalid)
			r.Stretches = provenRows(r.Stretches)
		}
	}
	for _, rows := range [][]Row{r.Splits, r.Rejected} {
		slices.SortStableFunc(rows, func(a, b Row) int {
			if k := strings.Compare(a.Series.String(), b.Series.String()); k != 0 {
				return k
			}
			return a.M - b.M
		})
	}
	return err
}

func (r *Result) warnFew(c *infer.Curve, least int) (few int) {
	scatter := c.ScatterOf(least)
	if scatter == nil {
		return 0
	}
	r.warn(c.Series.Key.String(), "not searched: %s", scatter.Text(least))
	return scatter.Rows
}

func (s *stretchPlan) predicted(f *rules.Facts, p plan, i int) rules.Remedy {
	pt := s.curve.Points[i]
	r, _ := p.remedy(pt.M)
	r.PredictedUS, _ = p.predict(f, s.curve, pt.M)
	r.DirectUS, r.ExtraBytes = math.Exp(pt.US.Y), r.PaddingBytes(s.curve.Series.Key.Subject)
	return r
}

// remedyOf is the remedy that fits a rule's findings.
var remedyOf = map[rules.Rule]rules.RemedyKind{rules.SplitRule: rules.RemedySplit, rules.Pad: rules.RemedyPad,
	rules.Alternative: rules.RemedyOther, rules.Fusion: rules.RemedyOther}
