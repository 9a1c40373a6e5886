package rules

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
)

// plan is one way to compute the rows of a stretch: the same for all of them
// but for the part of a split that varies with M.
type plan struct {
	kind RemedyKind
	// fixed are the parts of a split that do not vary; the rest of M is one part
	// more.
	fixed []int
	padTo int
	pad   table.PadKind
	other *curve // the series of the kernel that takes over
	// label names an algorithm in the series of its library's choices, which run it at one M as one
	// choice and at the next as another; empty where only the number of the choice is known.
	label string
	// choices are these series, the library's first choice among them.
	choices []*curve
	// library and algorithm are set once the library has told what to tell it.
	library   string
	algorithm kernels.Algorithm
}

// remedy writes the plan down for one M; ok is false where it can't be followed.
func (p plan) remedy(m int) (r Remedy, ok bool) {
	r = Remedy{Kind: p.kind, M: m}
	switch p.kind {
	case RemedySplit:
		rest := m
		for _, part := range p.fixed {
			rest -= part
		}
		if rest < 1 {
			return r, false
		}
		r.Parts = append(slices.Clone(p.fixed), rest)
	case RemedyPad:
		if p.padTo <= m {
			return r, false
		}
		r.PadTo, r.Pad = p.padTo, p.pad
	case RemedyOther:
		r.Kernel = p.other.series.Key.Kernel
	case RemedyAlgorithm:
		if r.Kernel = p.other.series.Key.Kernel; p.algorithm != (kernels.Algorithm{}) {
			r.Kernel, r.Algorithm = p.library, p.algorithm
		}
	}
	return r, true
}

// predict is the time of a row under the plan, in microseconds at the common clock:
// mid from the estimates, high from upper bounds.
func (p plan) predict(f *evidence, c *curve, m int) (mid, high float64) {
	r, ok := p.remedy(m)
	if !ok {
		return math.Inf(1), math.Inf(1)
	}
	add := func(from *curve, m int) {
		i, ok := from.at(m)
		if !ok {
			mid, high = math.Inf(1), math.Inf(1)
			return
		}
		mid, high = mid+math.Exp(from.points[i].us.y), high+math.Exp(f.upper[from][i])
	}
	switch p.kind {
	case RemedySplit:
		for _, part := range r.Parts {
			add(c, part)
		}
	case RemedyPad:
		add(c, r.PadTo)
		if p.pad == table.Copied {
			us := copyUS(c.series, m)
			mid, high = mid+us, high+us
		}
	case RemedyOther:
		add(p.other, m)
	case RemedyAlgorithm:
		from := f.runningAt(p, m)
		if from == nil {
			return math.Inf(1), math.Inf(1)
		}
		add(from, m)
	}
	return mid, high
}

// stretchPlan is rows of one series that one plan would serve, with the plans
// that compete with it on all of these rows.
type stretchPlan struct {
	curve  *curve
	points []int // ascending
	anchor int   // the row that would gain most
	plans  []plan
	saving float64 // predicted share of time, summed over the rows
}

// remedySearch seeks plans for one series.
type remedySearch struct {
	f      *evidence
	c      *curve
	search *partition
	above  []int
	ratio  float64
	parts  int
	all    bool // by estimates, and every plan competes
	o      SplitOptions
}

func newRemedySearch(f *evidence, c *curve, o SplitOptions) *remedySearch {
	cost, ms := make([]float64, len(c.points)), make([]int, len(c.points))
	for i, u := range f.upper[c] {
		cost[i], ms[i] = math.Exp(u), c.points[i].m
	}
	return &remedySearch{f: f, c: c, search: newPartition(ms, cost, o.MaxParts), above: cheapestAbove(f.upper[c]), ratio: o.Ratio, parts: o.MaxParts, all: o.Candidates == CandidatesAll, o: o}
}

// plansFor lists what could serve a point, best prediction by bounds first within
// each kind.
func (pl *remedySearch) plansFor(i int) []plan {
	var out []plan
	split := func(k int) []int {
		parts, _ := pl.search.parts(i, k)
		if parts == nil || slices.ContainsFunc(out, func(p plan) bool { return p.kind == RemedySplit && len(p.fixed) == len(parts)-1 }) {
			return nil
		}
		// The largest part takes up what varies along the stretch.
		out = append(out, plan{kind: RemedySplit, fixed: parts[:len(parts)-1]})
		return parts
	}
	divisible := pl.c.series.Key.Divisible() && pl.o.seeks(RemedySplit)
	if divisible {
		split(2)
	}
	if divisible && pl.parts > 2 {
		split(pl.parts)
	}
	if b := pl.above[i]; pl.o.seeks(RemedyPad) && pl.c.series.Key.Paddable() && b >= 0 && !math.IsInf(pl.f.upper[pl.c][b], 1) {
		// What competes and is as fast comes first: a copied pad, which every engine can run.
		if pl.o.Pads != PadsInPlace {
			out = append(out, plan{kind: RemedyPad, padTo: pl.c.points[b].m, pad: table.Copied})
		}
		if pl.o.Pads != PadsCopied {
			out = append(out, plan{kind: RemedyPad, padTo: pl.c.points[b].m, pad: table.InPlace})
		}
	}
	if other, at := pl.f.bestElsewhere(pl.c, pl.c.points[i].m, pl.takes); other != nil {
		out = append(out, otherPlan(other, at, pl.f.elsewhere(pl.c)))
	}
	return out
}

// takes says whether a series may take over.
func (pl *remedySearch) takes(other *curve) bool {
	return pl.o.has(other.series.Key.Kernel) && pl.o.seeks(otherKind(other))
}

// saving is the predicted share of a row's time that a plan saves, 0 when it is
// less than asked for.
func (pl *remedySearch) saving(p plan, i int) float64 {
	pt := pl.c.points[i]
	mid, high := p.predict(pl.f, pl.c, pt.m)
	direct := math.Exp(pt.us.y)
	// By bounds: of thousands of estimates some promise a gain by chance.
	if !pl.all && high >= pl.ratio*math.Exp(pt.us.y-pl.f.half(pt.us)) || !(mid < pl.ratio*direct) {
		return 0
	}
	return 1 - mid/direct
}

// nearShare is the share of a row's best predicted saving that a plan has to reach to
// serve the row: one action for a whole stretch is worth a little time, and what
// sets two predictions apart is noise in part.
const nearShare = 0.7

// stretches covers the rows that want a remedy, greedily: the row that would
// gain most picks its plan, which is taken as far to both sides as it is near the
// best; then the next.
func (pl *remedySearch) stretches(among []bool) []*stretchPlan {
	n := len(pl.c.points)
	best := make([]float64, n)
	plans := make([][]plan, n)
	var order []int
	for i := range n {
		if among != nil && !among[i] || !pl.c.points[i].judged(pl.f.cfg.MinSamples) {
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
		// Others compete where they would serve every row of the stretch.
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

// rivalMargin is by how much, as a share of the time, a prediction may err beyond its
// bounds: a launch beside another is not quite a launch by itself.
const rivalMargin = 0.005

// rivals says whether plan a may be faster than plan b at a point: by their bounds.
func (pl *remedySearch) rivals(a, b plan, i int) bool {
	m := pl.c.points[i].m
	mid, high := a.predict(pl.f, pl.c, m)
	_, other := b.predict(pl.f, pl.c, m)
	return 2*mid-high <= other*(1+rivalMargin)
}

// twins are a pad in place and the same with its rows copied.
func twins(a, b plan) bool {
	return a.kind == RemedyPad && b.kind == RemedyPad && a.padTo == b.padTo && a.pad != b.pad
}

func samePlan(a, b plan) bool {
	return a.kind == b.kind && a.padTo == b.padTo && a.pad == b.pad && a.other == b.other && a.label == b.label && slices.Equal(a.fixed, b.fixed)
}

// findRemedies is FindSplits by the interval method.
func findRemedies(ctx context.Context, r *SplitsResult, data Data, cfg Config, o SplitOptions, m Measurer) error {
	cfg.Threshold = o.Threshold
	p := prepare(data, cfg)
	f := newEvidence(p, cfg)
	var flags panel
	if o.Among == AmongFlagged {
		flags = f.panel(entryOf(Monotonic))
	}
	var found []*stretchPlan
	r.Scope = &Scope{Among: o.Among, Kinds: o.Kinds}
	for at, c := range p.curves {
		if ctx.Err() != nil {
			break // who reads the result learns from ctx that it is not whole
		}
		if c.unjudged || !o.has(c.series.Key.Kernel) {
			continue
		}
		r.Scope.Few += r.warnFew(c, cfg.MinSamples)
		var among []bool
		if o.Among == AmongFlagged {
			among = make([]bool, len(c.points))
			for i := range flags.rows[at] {
				among[i] = flags.rows[at][i].verdict == Anomalous
			}
		}
		for i, pt := range c.points {
			if (among == nil || among[i]) && pt.judged(cfg.MinSamples) {
				r.Scope.Rows++
			}
		}
		pl := newRemedySearch(f, c, o)
		if pl.search.cut {
			r.warn(c.series.Key.String(), "the search for splits in more than two parts ended before it was done: better ones may exist")
		}
		found = append(found, pl.stretches(among)...)
	}
	suspected, _ := suspects(p, cfg.Only(slices.DeleteFunc(cfg.On(), func(r Rule) bool { return !slices.Contains(o.Kinds, remedyOf[r]) })...))
	r.Suspected = slices.DeleteFunc(suspected, func(f Finding) bool { return !o.has(f.Series.Kernel) })
	var err error
	if m == nil {
		for _, s := range found {
			for _, i := range s.points {
				r.Splits = append(r.Splits, SplitRow{s.curve.series.Key, s.predicted(f, s.plans[0], i)})
			}
		}
	} else {
		err = execute(ctx, r, f, found, o, m)
		if why := p.invalid(p.resolve(cfg), cfg); why != "" && len(r.Stretches) > 0 {
			r.warn("run", "the sweep is not reliable, so a remedy covers only the rows that were executed: %s", why)
			r.Stretches = provenRows(r.Stretches)
		}
	}
	for _, rows := range [][]SplitRow{r.Splits, r.Rejected} {
		slices.SortStableFunc(rows, func(a, b SplitRow) int {
			if k := strings.Compare(a.Series.String(), b.Series.String()); k != 0 {
				return k
			}
			return a.M - b.M
		})
	}
	return err
}

// warnFew says how many rows of a series are too thinly sampled to be searched, and returns it.
func (r *SplitsResult) warnFew(c *curve, least int) (few int) {
	scatter := c.scatterOf(least)
	if scatter == nil {
		return 0
	}
	r.warn(c.series.Key.String(), "not searched: %s", scatter.text(least))
	return scatter.Rows
}

// predicted is the plan for one row as a remedy that nobody has run.
func (s *stretchPlan) predicted(f *evidence, p plan, i int) Remedy {
	pt := s.curve.points[i]
	r, _ := p.remedy(pt.m)
	r.PredictedUS, _ = p.predict(f, s.curve, pt.m)
	r.DirectUS = math.Exp(pt.us.y)
	return r
}

// Case is what the remedy of a product executes.
func (r Remedy) Case(direct results.Case) results.Case {
	c := direct
	c.ID, c.Label = 0, ""
	c.Parts, c.PadTo, c.Copied = r.Parts, r.PadTo, r.Pad == table.Copied
	switch {
	case r.Algorithm != (kernels.Algorithm{}):
		c.Kernel = kernels.AlgorithmName(r.Kernel, r.Algorithm)
	case r.Kind == RemedyOther || r.Kind == RemedyAlgorithm:
		c.Kernel = r.Kernel
	}
	return c
}
