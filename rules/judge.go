package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// marginalMid is how far from the bound, as a share of the time, the estimate of
	// a marginal row's loss may lie, and marginalReach how far the ends of its interval may.
	marginalMid   = 0.0025
	marginalReach = 0.005
)

// judgement is one row as one rule sees it, from the samples of the sweep.
type judgement struct {
	curve *curve
	point int
	// tested is false for rows to which the rule has nothing to say: no
	// reference, no partner, too few samples.
	tested  bool
	verdict Verdict
	// p and adjusted belong to the hypothesis that the rule is kept.
	p, adjusted float64
	// broken and kept are true when the row's interval lies wholly on that side.
	broken, kept bool
	// cleared is true of an undecided row that loses less than [Audit].CleanBelow for certain.
	cleared bool
	// expected is the MFU that is demanded, 0 where the rule speaks of time.
	expected float64
	// loss is the share of the row's time that it wastes; lossBound is where it begins to
	// break the rule, of rules that state one.
	loss      Interval
	lossBound float64
	// enough is the log-time in microseconds at which the row would lose nothing.
	enough float64
	// against is the case that the row is held against; its M is 0 for a ceiling, and for
	// a row that is cleared of a rule which would have to make the case up.
	against *results.Case
	// base is the points of the same curve that set the expectation; nil where
	// against alone does.
	base []int
	// bound is where log(row's time ÷ against's time), or log(µs) of the row alone
	// for a ceiling, begins to break the rule; sign is -1 when to be below it does.
	bound, sign float64
	// ideal is what that log is when the row loses nothing: 0 for cases of the same work.
	ideal float64
	// cause and text are set by rules that know what they found.
	cause   Cause
	explain func(*judgement) string
}

func (j *judgement) m() int { return j.curve.points[j.point].m }

// nothing is what a row is held against that is held against no case.
var nothing = &results.Case{}

// said is the verdict as the audit tells it.
func (j *judgement) said() Verdict {
	if j.cleared && j.verdict == Undecided {
		return Clean
	}
	return j.verdict
}

// unjudgedRow is the judgement of a point that a rule has nothing to say of.
func (c *curve) unjudgedRow(i int) judgement {
	return judgement{curve: c, point: i, p: 1, adjusted: 1, sign: 1, verdict: Unjudged, against: nothing}
}

// direct is the case of the judged row.
func (j *judgement) direct() results.Case {
	c := j.curve.copyOf(j.point)
	c.ID = 0
	return c
}

// marginal says whether the row lies so near the bound that more samples would not
// tell on which side, and it would not matter.
func (j *judgement) marginal() bool {
	b := j.lossBound
	return b > 0 && math.Abs(j.loss.Mid-b) <= marginalMid && j.loss.Lo >= b-marginalReach && j.loss.Hi <= b+marginalReach
}

// panel is all judgements of one rule: the family that is controlled together.
type panel struct {
	rule Rule
	rows [][]judgement // by curve, parallel to its points; nil where the rule has no say
}

// judge makes the panels of all rules that are on, in the order of [AllRules].
func judge(p *prepared, cfg Config) []panel {
	var panels []panel
	judgeEach(p, cfg, func(pn panel) { panels = append(panels, pn) })
	return panels
}

// judgeEach is [judge], one panel after another: of many rows each takes as much memory as the
// samples do.
func judgeEach(p *prepared, cfg Config, take func(panel)) {
	f := newEvidence(p, cfg)
	for _, r := range ruleTable {
		if r.on(cfg) {
			take(f.panel(r))
		}
	}
}

// tests counts the rows that the rule judges.
func (pn *panel) tests() int {
	n := 0
	for _, rows := range pn.rows {
		for i := range rows {
			if rows[i].tested {
				n++
			}
		}
	}
	return n
}

// judged counts of how many rows the rule could tell something.
func (pn *panel) judged() Judged {
	out := Judged{Rule: pn.rule}
	for _, rows := range pn.rows {
		out.Rows += len(rows)
		for i := range rows {
			switch {
			case !rows[i].tested:
			case rows[i].said() == Undecided:
				out.Undecided++
			default:
				out.Decided++
			}
		}
	}
	return out
}

// panel judges every curve by one rule.
func (f *evidence) panel(r rule) panel {
	pn := panel{rule: r.name, rows: make([][]judgement, len(f.curves))}
	for i, c := range f.curves {
		if !c.unjudged && r.appliesTo(c.series.Key.Subject) {
			pn.rows[i] = r.judge(f, c)
			c.spare(pn.rows[i])
		}
	}
	pn.decide(f.cfg, f.looks)
	return pn
}

// decide adjusts the p-values of the whole panel and gives every row a verdict. The
// share of false rows among the anomalous is held to the level by Benjamini and Hochberg's procedure; a
// row that is slower than the bound by marginalReach is called clean with at most half of
// 1 − confidence. Both levels are spent evenly over the looks.
func (pn *panel) decide(cfg Config, looks float64) {
	tested := make([]*judgement, 0, pn.tests())
	for _, rows := range pn.rows {
		for i := range rows {
			if rows[i].tested {
				tested = append(tested, &rows[i])
			}
		}
	}
	p := make([]float64, len(tested))
	for i, j := range tested {
		p[i] = math.Min(1, j.p*looks)
	}
	for i, adjusted := range benjaminiHochberg(p) {
		j := tested[i]
		j.adjusted = adjusted
		switch {
		case j.marginal():
			j.verdict = Marginal
		case j.adjusted <= cfg.FDR && j.broken:
			j.verdict = Anomalous
		case j.kept:
			j.verdict = Clean
		default:
			j.verdict = Undecided
		}
	}
}

// evidence is what the tests of a run share.
type evidence struct {
	*prepared
	cfg Config
	// looks is how often the samples of a row may have been looked at before it was
	// decided whether to take more of them.
	looks float64
	// upper are the rows' log-times' upper bounds, each by itself; +Inf for rows that
	// can't serve.
	upper map[*curve][]float64
	// keyed finds the curve of a series, products the curves of the same product on any kernel; see productOf.
	keyed    map[results.SeriesKey]*curve
	products map[results.SeriesKey][]*curve
}

// productOf is what the series of one product have in common on all kernels of a device.
func productOf(key results.SeriesKey) results.SeriesKey {
	key.Kernel = ""
	return key
}

// LooksAt is how many looks a sweep takes at its samples whose rows get from the first to
// the most rounds: one when the screening ends, and one more each time the rounds have grown by
// half.
func LooksAt(screening, rounds int) int {
	if screening < 1 {
		return 1
	}
	return 1 + len(results.Looks(screening, rounds))
}

// plannedLooks is how many looks a run's plan allows, 0 without a plan.
func plannedLooks(p results.Planned) int {
	if p.Screening < 1 || p.Rounds < p.Screening {
		return 0
	}
	return LooksAt(p.Screening, p.Rounds)
}

func newEvidence(p *prepared, cfg Config) *evidence {
	f := &evidence{prepared: p, cfg: cfg, looks: float64(max(1, p.looks)), upper: make(map[*curve][]float64, len(p.curves)),
		keyed: make(map[results.SeriesKey]*curve, len(p.curves)), products: map[results.SeriesKey][]*curve{}}
	least, most := 0, 0
	for _, c := range p.curves {
		key := c.series.Key
		f.keyed[key], f.products[productOf(key)] = c, append(f.products[productOf(key)], c)
		upper := make([]float64, len(c.points))
		for i, pt := range c.points {
			upper[i] = math.Inf(1)
			if pt.serves(cfg.MinSamples) {
				upper[i] = pt.us.y + f.half(pt.us)
			}
			if pt.n >= cfg.MinSamples {
				if least == 0 || pt.n < least {
					least = pt.n
				}
				most = max(most, pt.n)
			}
		}
		f.upper[c] = upper
	}
	// A failed block here and there is no look, nor are the rounds that control rows get whatever
	// they show: rows may have more samples than the plan's rounds.
	if float64(most) >= results.LookGrowth*float64(least) {
		taken := LooksAt(least, most)
		if p.planned > 0 {
			taken = min(taken, p.planned)
		}
		f.looks = math.Max(f.looks, float64(taken))
	}
	return f
}

// blank is a judgement of every point: untested, undecided where samples lack.
func (f *evidence) blank(c *curve) []judgement {
	rows := make([]judgement, len(c.points))
	for i := range rows {
		rows[i] = c.unjudgedRow(i)
		if !c.points[i].judged(f.cfg.MinSamples) {
			rows[i].verdict = Undecided
		}
	}
	return rows
}

// half is the half-width of the interval around an estimate.
func (f *evidence) half(e estimate) float64 {
	return f.q.upper((1-f.cfg.Confidence)/2, e.df) * e.se
}

// decisive is the half-width on which verdicts rest: that of an interval which pays
// for all looks at the samples.
func (f *evidence) decisive(e estimate) float64 {
	return f.q.upper((1-f.cfg.Confidence)/2/f.looks, e.df) * e.se
}

// hold fills in a judgement of a row whose log-time should not be above that of
// something else by more than margin. least is the log-time that is enough, with
// its error.
func (f *evidence) hold(j *judgement, least estimate, margin float64) {
	p := j.curve.points[j.point]
	j.tested, j.bound, j.enough = true, margin, least.y
	fast, slow := p.us, p.us
	fast.y -= j.curve.hidden(p)
	if p.modes != nil {
		// Broken only where the faster level is, kept only where the slower one is.
		fast.y, slow.y = p.modes.fast, p.modes.slow
	}
	d, worse := difference(fast, least), difference(slow, least)
	j.p = upperP((d.y-margin)/d.se, d.df)
	j.broken = d.y-f.decisive(d) > margin
	j.lossBound = lost(-margin)
	j.loss = Interval{lost(-d.y + f.half(d)), lost(-p.us.y + least.y), lost(-worse.y - f.half(worse))}
	reach := lost(-worse.y-f.decisive(worse)) <= j.lossBound+marginalReach
	j.kept = worse.y+f.decisive(worse) <= margin || reach && lost(-worse.y) <= j.lossBound-marginalMid
	if p.modes != nil {
		j.lossBound = 0 // such a row is never merely marginal
	}
}

// monotonic: MFU may not fall below threshold × what a smaller M reached.
func (f *evidence) monotonic(c *curve) []judgement {
	rows := f.blank(c)
	threshold := math.Log(f.cfg.Threshold)
	// rival is the smaller M that would be the best if its few samples are right: against
	// it nothing is proven, and nothing cleared either.
	rival := math.Inf(-1)
	for i, ref := range references(c.points, f.cfg.MinSamples) {
		p := c.points[i]
		if !p.judged(f.cfg.MinSamples) && !p.away {
			if rate := p.rate() + p.us.se; rate > rival {
				rival = rate
			}
		}
		if !p.judged(f.cfg.MinSamples) {
			continue
		}
		j := &rows[i]
		if ref.point < 0 {
			if p.rate() < threshold+rival {
				j.verdict = Undecided
			}
			continue
		}
		against := c.points[ref.point]
		j.against, j.base = c.caseOf(ref.point), ref.window
		j.expected = expo(threshold + ref.rate.y - c.peak)
		f.hold(j, estimate{p.flops - ref.rate.y, ref.rate.se, ref.rate.df}, -threshold)
		j.kept = j.kept && p.rate()-f.decisive(p.us) >= threshold+rival-marginalReach
		// Times of the two cases differ by their FLOPs as well.
		j.ideal = p.flops - against.flops
		j.bound = j.ideal - threshold
	}
	return rows
}

// split: T(N1)+T(N2) may not be below T(N). Of thousands of pairs the cheapest is
// cheap by luck too, so pairs are chosen by some samples and priced by others.
func (f *evidence) split(c *curve) []judgement {
	rows := f.blank(c)
	ms := make([]int, len(c.points))
	for i, p := range c.points {
		ms[i] = p.m
	}
	search := func(cost func(point) float64) *partition {
		costs := make([]float64, len(c.points))
		for i, p := range c.points {
			costs[i] = math.Inf(1)
			if p.serves(f.cfg.MinSamples) && p.folded {
				costs[i] = math.Exp(cost(p))
			}
		}
		return newPartition(ms, costs, 2)
	}
	whole := search(func(p point) float64 { return p.us.y })
	var of [folds]*partition
	fitted := len(c.points) <= crossFitRows
	if fitted {
		each(folds, func(k int) { of[k] = search(func(p point) float64 { return p.without[k] }) })
	}
	margin := math.Log1p(f.cfg.Rules.Split.Margin)
	for i, p := range c.points {
		parts, _ := whole.parts(i, 2)
		if parts == nil || !p.judged(f.cfg.MinSamples) {
			continue
		}
		j := &rows[i]
		price := c.priced(parts)
		var prices [folds]float64
		for k := range folds {
			if !fitted {
				// Without a search of its own, a fold prices what all samples chose.
				prices[k] = math.Log(c.sum(parts, func(p point) float64 { return p.of[k] })) + price.se
				continue
			}
			chosen, _ := of[k].parts(i, 2)
			prices[k] = math.Log(c.sum(chosen, func(p point) float64 { return p.of[k] }))
		}
		price.y = joint(prices)
		if f.hold(j, price, margin); !j.kept {
			against := j.direct()
			against.Parts, against.Label = parts, ""
			j.against = &against
		}
	}
	return rows
}

// sum is the time of parts run one after the other, in microseconds; log is that of
// a single launch.
func (c *curve) sum(parts []int, log func(point) float64) float64 {
	var us float64
	for _, m := range parts {
		if i, ok := c.at(m); ok {
			us += math.Exp(log(c.points[i]))
		}
	}
	return us
}

// priced is the log-time of parts run one after the other, with its error, from the
// estimates of single launches. Equal parts share their error.
func (c *curve) priced(parts []int) estimate {
	total := c.sum(parts, func(p point) float64 { return p.us.y })
	share := map[int]float64{}
	var variance float64
	df := math.Inf(1)
	for _, m := range parts {
		share[m]++
	}
	for m, n := range share {
		if i, ok := c.at(m); ok {
			us := c.points[i].us
			weight := n * math.Exp(us.y) / total * us.se
			variance += weight * weight
			df = math.Min(df, us.df)
		}
	}
	return estimate{math.Log(total), math.Sqrt(variance), df}
}

// pad: no larger M may be faster.
func (f *evidence) pad(c *curve) []judgement {
	rows := f.blank(c)
	margin := math.Log1p(f.cfg.Rules.Pad.Margin)
	top := newBest()
	for i := len(c.points) - 1; i >= 0; i-- {
		p := c.points[i]
		if top.point >= 0 && p.judged(f.cfg.MinSamples) {
			j := &rows[i]
			e := c.points[top.point].us
			if f.hold(j, estimate{-top.estimate(), e.se, e.df}, margin); !j.kept {
				against := j.direct()
				against.PadTo, against.Label = c.points[top.point].m, ""
				j.against = &against
			}
		}
		if p.serves(f.cfg.MinSamples) && p.folded {
			top.add(i, -p.us.y, negated(p.without), negated(p.of))
		}
	}
	return rows
}
