package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/search"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// MarginalMid is the largest distance of a marginal row's loss from the threshold, as a share of the
	// time.
	MarginalMid = 0.0025
	// MarginalReach is the same for the ends of its interval.
	MarginalReach = 0.005
)

// Judgement is the result of one rule on one row, from the samples of the sweep.
type Judgement struct {
	Curve *infer.Curve
	Point int
	// Tested is false for rows that the rule can't judge: no reference, no partner, too few samples.
	Tested  bool
	Verdict Verdict
	// p and adjusted are for the hypothesis that the rule is kept.
	p, adjusted float64
	// broken and kept are true if the row's whole interval lies on that side.
	broken, kept bool
	// cleared is true for an undecided row that surely loses less than [Audit].CleanBelow.
	cleared bool
	// expected is the MFU that the rule demands, 0 if the rule is about time.
	expected float64
	// Loss is the share of the row's time that it wastes; lossBound is the loss that breaks the rule, for
	// rules that have one.
	Loss      stats.Interval
	lossBound float64
	// Enough is the log time in microseconds of a row without loss.
	Enough float64
	// Against is the reference case. Its M is 0 for a ceiling, and for a row that keeps a rule whose case
	// would have to be made.
	Against *results.Case
	// Base is the points of the same curve that set the expectation; nil if only Against does.
	Base []int
	// bound is the limit of log(row's time ÷ against's time), or for a ceiling of log(µs); sign is -1 if
	// values below it do.
	bound, sign float64
	// ideal is the value of that log for a row without loss: 0 for cases of the same work.
	ideal float64
	// same is the p-value of equal times, of the rule fusion.
	same float64
	// cause and text are set by rules that know the cause.
	cause   cause.Kind
	explain func(*Judgement) string
}

// M is the row's M.
func (j *Judgement) M() int { return j.Curve.Points[j.Point].M }

// nothing is the reference of a row without a reference case.
var nothing = &results.Case{}

func (j *Judgement) said() Verdict {
	if j.cleared && j.Verdict == Undecided {
		return Clean
	}
	return j.Verdict
}

func unjudgedRow(c *infer.Curve, i int) Judgement {
	return Judgement{Curve: c, Point: i, p: 1, adjusted: 1, sign: 1, Verdict: Unjudged, Against: nothing}
}

func (j *Judgement) direct() results.Case {
	c := j.Curve.CaseCopy(j.Point)
	c.ID = 0
	return c
}

// marginal reports whether the row is so near the threshold that more samples would not decide, and the side
// would not matter.
func (j *Judgement) marginal() bool {
	b := j.lossBound
	return b > 0 && math.Abs(j.Loss.Mid-b) <= MarginalMid && j.Loss.Lo >= b-MarginalReach && j.Loss.Hi <= b+MarginalReach
}

// Panel is the judgements of one rule on all rows of a run.
type Panel struct {
	Rule Rule
	Rows [][]Judgement // by curve, parallel to its points; nil if the rule does not apply
}

// Judge decides every row by every rule that is on.
func Judge(p *infer.Estimates, cfg Config) []Panel {
	var panels []Panel
	judgeEach(p, cfg, func(pn Panel) { panels = append(panels, pn) })
	return panels
}

// judgeEach is [Judge], one panel at a time: with many rows each needs as much memory as the samples.
func judgeEach(p *infer.Estimates, cfg Config, take func(Panel)) {
	f := NewFacts(p, cfg)
	for _, r := range ruleTable {
		if r.on(cfg) {
			take(f.panel(r))
		}
	}
}

func (pn *Panel) tests() int {
	n := 0
	for _, rows := range pn.Rows {
		for i := range rows {
			if rows[i].Tested {
				n++
			}
		}
	}
	return n
}

func (pn *Panel) judged() Judged {
	out := Judged{Rule: pn.Rule}
	for _, rows := range pn.Rows {
		out.Rows += len(rows)
		for i := range rows {
			switch {
			case !rows[i].Tested:
			case rows[i].said() == Undecided:
				out.Undecided++
			default:
				out.Decided++
			}
		}
	}
	return out
}

func (f *Facts) panel(r rule) Panel {
	pn := Panel{Rule: r.name, Rows: make([][]Judgement, len(f.Curves))}
	for i, c := range f.Curves {
		if !c.Unjudged && r.appliesTo(c.Series.Key.Subject) {
			pn.Rows[i] = r.judge(f, c)
			spare(c, pn.Rows[i])
		}
	}
	pn.decide(f.Cfg, f.looks)
	for i, c := range f.Curves {
		f.inTime(r.name, c, pn.Rows[i])
	}
	return pn
}

// PanelOf judges all rows by one rule.
func (f *Facts) PanelOf(name Rule) Panel { return f.panel(entryOf(name)) }

// decide adjusts the p-values of the whole panel and gives every row a verdict. Benjamini and Hochberg's
// procedure controls the share of false rows among the anomalous. A row slower than the threshold by
// MarginalReach is called clean with a probability of at most half of 1 − confidence. Both levels are split
// evenly over the looks.
func (pn *Panel) decide(cfg Config, looks float64) {
	tested := make([]*Judgement, 0, pn.tests())
	for _, rows := range pn.Rows {
		for i := range rows {
			if rows[i].Tested {
				tested = append(tested, &rows[i])
			}
		}
	}
	p := make([]float64, len(tested))
	for i, j := range tested {
		p[i] = math.Min(1, j.p*looks)
	}
	for i, adjusted := range stats.AdjustP(p) {
		j := tested[i]
		j.adjusted = adjusted
		switch {
		case j.marginal():
			j.Verdict = Marginal
		case j.adjusted <= cfg.FDR && j.broken:
			j.Verdict = Anomalous
		case j.kept:
			j.Verdict = Clean
		default:
			j.Verdict = Undecided
		}
	}
}

// Facts are the estimates of a run, indexed for the rules.
type Facts struct {
	*infer.Estimates
	Cfg Config
	// looks is how many looks at a row's samples may have decided whether to take more.
	looks float64
	// Upper are upper bounds of the rows' log times, each on its own; +Inf for rows that can't serve.
	Upper map[*infer.Curve][]float64
	// keyed finds the curve of a series, products the curves of the same product on any kernel; see ProductOf.
	keyed    map[results.SeriesKey]*infer.Curve
	products map[results.SeriesKey][]*infer.Curve
}

// ProductOf is the product of a series on any kernel: its key without the kernel.
func ProductOf(key results.SeriesKey) results.SeriesKey {
	key.Kernel = ""
	return key
}

// NewFacts collects the facts that rules judge by.
func NewFacts(p *infer.Estimates, cfg Config) *Facts {
	f := &Facts{Estimates: p, Cfg: cfg, looks: float64(max(1, p.Looks)), Upper: make(map[*infer.Curve][]float64, len(p.Curves)),
		keyed: make(map[results.SeriesKey]*infer.Curve, len(p.Curves)), products: map[results.SeriesKey][]*infer.Curve{}}
	least, most := 0, 0
	for _, c := range p.Curves {
		key := c.Series.Key
		f.keyed[key], f.products[ProductOf(key)] = c, append(f.products[ProductOf(key)], c)
		upper := make([]float64, len(c.Points))
		for i, pt := range c.Points {
			upper[i] = math.Inf(1)
			if pt.Serves(cfg.MinSamples) {
				upper[i] = pt.US.Y + f.Half(pt.US)
			}
			if pt.N >= cfg.MinSamples {
				if least == 0 || pt.N < least {
					least = pt.N
				}
				most = max(most, pt.N)
			}
		}
		f.Upper[c] = upper
	}
	// A few failed blocks, or extra rounds of control rows, are not a look: rows may have more samples than
	// the plan's rounds.
	if float64(most) >= results.LookGrowth*float64(least) {
		taken := infer.LooksAt(least, most)
		if p.Planned > 0 {
			taken = min(taken, p.Planned)
		}
		f.looks = math.Max(f.looks, float64(taken))
	}
	return f
}

func (f *Facts) blank(c *infer.Curve) []Judgement {
	rows := make([]Judgement, len(c.Points))
	for i := range rows {
		rows[i] = unjudgedRow(c, i)
		if !c.Points[i].Judged(f.Cfg.MinSamples) {
			rows[i].Verdict = Undecided
		}
	}
	return rows
}

// Half is the half-width of an estimate's interval at the confidence.
func (f *Facts) Half(e stats.Estimate) float64 {
	return f.Quantiles.Upper((1-f.Cfg.Confidence)/2, e.DF)*e.SE + e.Open
}

// decisive is the half-width that verdicts use, corrected for all looks at the samples.
func (f *Facts) decisive(e stats.Estimate) float64 {
	return f.Quantiles.Upper((1-f.Cfg.Confidence)/2/f.looks, e.DF)*e.SE + e.Open
}

// hold judges a row whose log time should not exceed least by more than margin. least is the log time that is
// enough, with its error.
func (f *Facts) hold(j *Judgement, least stats.Estimate, margin float64) {
	p := j.Curve.Points[j.Point]
	j.Tested, j.bound, j.Enough = true, margin, least.Y
	fast, slow := p.US, p.US
	fast.Y -= j.Curve.Hidden(p)
	if p.Modes != nil && p.Like == nil {
		// Broken only if the faster level is, kept only if the slower one is.
		fast.Y, slow.Y = p.Modes.Fast, p.Modes.Slow
	}
	d := stats.Difference(fast, least)
	if p.Floor != nil {
		// A row delayed more than its neighbors is slow only if its low quantile is.
		if low := stats.Difference(*p.Floor, least); low.Above(margin) > d.Above(margin) {
			d = low
		}
	}
	worse := stats.Difference(slow, least)
	j.p = d.Above(margin)
	j.broken = d.Y-f.decisive(d) > margin
	j.lossBound = stats.Lost(-margin)
	j.Loss = stats.Interval{Lo: stats.Lost(-d.Y + f.Half(d)), Mid: stats.Lost(-p.US.Y + least.Y), Hi: stats.Lost(-worse.Y - f.Half(worse))}
	reach := stats.Lost(-worse.Y-f.decisive(worse)) <= j.lossBound+MarginalReach
	j.kept = worse.Y+f.decisive(worse) <= margin || reach && stats.Lost(-worse.Y) <= j.lossBound-MarginalMid
	if p.Modes != nil && p.Like == nil {
		j.lossBound = 0 // such a row is never marginal
	}
}

// monotonic: MFU may not fall below threshold × the MFU of a smaller M.
func (f *Facts) monotonic(c *infer.Curve) []Judgement {
	rows := f.blank(c)
	threshold := math.Log(f.Cfg.Threshold)
	// rival is the smaller M that would be the reference if its few samples are right. It proves no loss, but
	// also clears no row.
	rival := math.Inf(-1)
	for i, ref := range references(c.Points, f.Cfg.MinSamples) {
		p := c.Points[i]
		if !p.Judged(f.Cfg.MinSamples) {
			rival = max(rival, p.Rate()+p.US.SE)
			continue
		}
		j := &rows[i]
		if ref.point < 0 {
			if p.Rate() < threshold+rival {
				j.Verdict = Undecided
			}
			continue
		}
		j.Against, j.Base = c.CaseOf(ref.point), ref.window
		more := explained(c, i, ref.window)
		j.expected = stats.Exp(threshold + ref.rate.Y - more - c.Peak)
		f.hold(j, stats.Estimate{Y: p.Flops - ref.rate.Y + more, SE: ref.rate.SE, DF: ref.rate.DF, Open: ref.rate.Open}, -threshold)
		j.kept = j.kept && p.Rate()-f.decisive(p.US) >= threshold+rival-MarginalReach
		// Times of the two cases differ by their FLOPs too.
		j.ideal = idealRatio(c, i, ref.point)
		j.bound = j.ideal - threshold
	}
	return rows
}

// split: T(N1)+T(N2) may not be below T(N). The cheapest of thousands of pairs is partly cheap by chance, so
// some samples choose the pair and the others estimate its time.
func (f *Facts) split(c *infer.Curve) []Judgement {
	rows := f.blank(c)
	ms := make([]int, len(c.Points))
	for i, p := range c.Points {
		ms[i] = p.M
	}
	cheapest := func(cost func(infer.Point) float64) *search.Partition {
		costs := make([]float64, len(c.Points))
		for i, p := range c.Points {
			costs[i] = math.Inf(1)
			if p.Serves(f.Cfg.MinSamples) && p.Folded {
				costs[i] = math.Exp(cost(p) + p.US.Open)
			}
		}
		return search.New(ms, costs, 2)
	}
	whole := cheapest(func(p infer.Point) float64 { return p.US.Y })
	var of [stats.Folds]*search.Partition
	fitted := len(c.Points) <= infer.CrossFitRows
	if fitted {
		stats.Each(stats.Folds, func(k int) { of[k] = cheapest(func(p infer.Point) float64 { return p.Without[k] }) })
	}
	margin := math.Log1p(f.Cfg.Rules.Split.Margin)
	for i, p := range c.Points {
		parts, _ := whole.Parts(i, 2)
		if parts == nil || !p.Judged(f.Cfg.MinSamples) {
			continue
		}
		j := &rows[i]
		price := c.Priced(parts)
		var prices [stats.Folds]float64
		for k := range stats.Folds {
			if !fitted {
				// A fold without its own search uses the pair chosen by all samples.
				prices[k] = math.Log(c.Sum(parts, func(p infer.Point) float64 { return p.Of[k] })) + price.SE
				continue
			}
			chosen, _ := of[k].Parts(i, 2)
			prices[k] = math.Log(c.Sum(chosen, func(p infer.Point) float64 { return p.Of[k] }))
		}
		price.Y = stats.JoinFolds(prices)
		if f.hold(j, price, margin); !j.kept {
			against := j.direct()
			against.Parts, against.Label = parts, ""
			j.Against = &against
		}
	}
	return rows
}

func (f *Facts) pad(c *infer.Curve) []Judgement {
	rows := f.blank(c)
	margin := math.Log1p(f.Cfg.Rules.Pad.Margin)
	top := stats.NewBest()
	for i := len(c.Points) - 1; i >= 0; i-- {
		p := c.Points[i]
		if top.Point >= 0 && p.Judged(f.Cfg.MinSamples) {
			j := &rows[i]
			e := c.Points[top.Point].US
			if f.hold(j, stats.Estimate{Y: -top.Value(), SE: e.SE, DF: e.DF, Open: e.Open}, margin); !j.kept {
				against := j.direct()
				against.PadTo, against.Label = c.Points[top.Point].M, ""
				j.Against = &against
			}
		}
		if p.Serves(f.Cfg.MinSamples) && p.Folded {
			top.Add(i, -p.US.Y, stats.NegateFolds(p.Without), stats.NegateFolds(p.Of))
		}
	}
	return rows
}

func spare(c *infer.Curve, rows []Judgement) {
	for i := range rows {
		if c.Floor.Holds(c.Points[i].M) {
			rows[i] = unjudgedRow(c, i)
		}
	}
}

// against is the reference case at a point of the curve. For a row that keeps the rule no case is made.
func against(c *infer.Curve, i int, kept bool) *results.Case {
	if kept && c.Points[i].Row < 0 {
		return nothing
	}
	return c.CaseOf(i)
}
