package rules

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/results"
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
	// expected is the MFU that is demanded, 0 where the rule speaks of time.
	expected float64
	loss     Interval
	// against is the case that the row is held against; its M is 0 for a ceiling.
	against results.Case
	// base is the points of the same curve that set the expectation, against's
	// among them; nil where against alone does.
	base []int
	// bound is where log(row's time ÷ against's time), or log(µs) of the row alone
	// for a ceiling, begins to break the rule; sign is -1 when to be below it does.
	bound, sign float64
	// clock is true for a row that is slow in time and not in cycles.
	clock bool
	// cause and text are set by rules that know what they found.
	cause   Cause
	explain func() string
}

func (j *judgement) m() int { return j.curve.points[j.point].m }

// alone is the case of the judged row.
func (j *judgement) alone() results.Case {
	c := j.curve.series.Rows[j.curve.points[j.point].row].Case
	c.ID = 0
	return c
}

// panel is all judgements of one rule: the family that is controlled together.
type panel struct {
	rule Rule
	rows [][]judgement // by curve, parallel to its points; nil where the rule has no say
}

// judge makes the panels of all rules that are on, in the order of [AllRules].
func judge(p *prepared, cfg Config) []panel {
	var panels []panel
	add := func(rule Rule, on bool, each func(*curve) []judgement) {
		if !on {
			return
		}
		pn := panel{rule: rule}
		for _, c := range p.curves {
			var rows []judgement
			if !c.witness {
				rows = each(c)
			}
			pn.rows = append(pn.rows, rows)
		}
		pn.decide(cfg)
		panels = append(panels, pn)
	}
	f := newFamily(p, cfg)
	add(Monotonic, cfg.Rules.Monotonic.Enabled, f.monotonic)
	add(SplitRule, cfg.Rules.Split.Enabled, f.split)
	add(Pad, cfg.Rules.Pad.Enabled, f.pad)
	add(Parity, cfg.Rules.Parity.Enabled, f.parity)
	add(Alternative, cfg.Rules.Alternative.Enabled, f.alternative)
	add(Roofline, cfg.Rules.Roofline.Enabled, f.roofline)
	return panels
}

// decide adjusts the p-values of the whole panel and gives every row a verdict.
func (pn *panel) decide(cfg Config) {
	var tested []*judgement
	for _, rows := range pn.rows {
		for i := range rows {
			if rows[i].tested {
				tested = append(tested, &rows[i])
			}
		}
	}
	p := make([]float64, len(tested))
	for i, j := range tested {
		p[i] = j.p
	}
	for i, adjusted := range benjaminiHochberg(p) {
		j := tested[i]
		j.adjusted = math.Min(1, adjusted/(1-familyShare))
		switch {
		case j.adjusted <= cfg.FDR && j.broken:
			j.verdict = Anomalous
		case j.kept || j.clock:
			j.verdict = Clean
		default:
			j.verdict = Undecided
		}
	}
}

// family holds what the tests of a run share.
type family struct {
	*prepared
	cfg Config
	// rows is the number of rows of the run with enough samples, and upper their
	// log-times' upper bounds, which hold all at once; +Inf for other rows.
	rows  float64
	upper map[*curve][]float64
}

func newFamily(p *prepared, cfg Config) *family {
	f := &family{prepared: p, cfg: cfg, upper: map[*curve][]float64{}}
	for _, c := range p.curves {
		for _, pt := range c.points {
			if pt.judged(cfg.MinSamples) {
				f.rows++
			}
		}
	}
	for _, c := range p.curves {
		upper := make([]float64, len(c.points))
		for i, pt := range c.points {
			upper[i] = math.Inf(1)
			if pt.judged(cfg.MinSamples) {
				upper[i] = pt.us.y + f.q.upper(familyShare*cfg.FDR/f.rows, pt.us.df)*pt.us.se
			}
		}
		f.upper[c] = upper
	}
	return f
}

// blank is a judgement of every point: untested, undecided where samples lack.
func (f *family) blank(c *curve) []judgement {
	rows := make([]judgement, len(c.points))
	for i := range rows {
		rows[i] = judgement{curve: c, point: i, p: 1, adjusted: 1, sign: 1, verdict: Clean}
		if !c.points[i].judged(f.cfg.MinSamples) {
			rows[i].verdict = Undecided
		}
	}
	return rows
}

// half is the half-width of the interval around a row's log-time.
func (f *family) half(e estimate) float64 {
	return f.q.upper((1-f.cfg.Confidence)/2, e.df) * e.se
}

// monotonic: MFU may not fall below threshold × what a smaller M reached. Where
// clocks are known a row has to be slow in time and in cycles alike.
func (f *family) monotonic(c *curve) []judgement {
	rows := f.blank(c)
	threshold := math.Log(f.cfg.Threshold)
	windows := f.rows * windowsPerRow
	inTime := references(c.points, f.cfg.MinSamples, func(p point) estimate {
		return estimate{p.flops - p.us.y, p.us.se, p.us.df}
	}, windows, familyShare*f.cfg.FDR, f.q)
	var inCycles []reference
	if c.clocked {
		inCycles = references(c.points, f.cfg.MinSamples, func(p point) estimate {
			return estimate{p.flops - p.cycles.y, p.cycles.se, p.cycles.df}
		}, windows, familyShare*f.cfg.FDR, f.q)
	}
	for i, p := range c.points {
		ref := inTime[i]
		if ref.point < 0 || !p.judged(f.cfg.MinSamples) {
			continue
		}
		j := &rows[i]
		j.tested = true
		rate, half := p.rate(), f.half(p.us)
		against := c.points[ref.point]
		j.against, j.base = c.series.Rows[against.row].Case, ref.window
		j.bound = p.flops - against.flops - threshold
		j.expected = expo(threshold + ref.low - c.peak)
		j.p = upperP((threshold+ref.low-rate)/p.us.se, p.us.df)
		j.broken = rate+half < threshold+ref.low
		j.kept = rate-half >= threshold+ref.mid
		j.loss = Interval{lost(rate + half - ref.low), lost(rate - ref.mid), lost(rate - half - ref.mid)}
		if inCycles == nil || inCycles[i].point < 0 {
			continue
		}
		cref := inCycles[i]
		crate, chalf := p.flops-p.cycles.y, f.half(p.cycles)
		pc := upperP((threshold+cref.low-crate)/p.cycles.se, p.cycles.df)
		j.clock = j.broken && j.p <= f.cfg.FDR/f.rows && crate-chalf >= threshold+cref.low
		j.broken = j.broken && crate+chalf < threshold+cref.low
		j.p = math.Max(j.p, pc)
		if j.clock {
			j.cause = Clock
			j.explain = func() string {
				return fmt.Sprintf("m%d is slow in time but not in cycles: the clock was %.0f MHz against %.0f MHz at m%d, so the kernel is not at fault",
					p.m, p.clock, against.clock, against.m)
			}
		}
	}
	return rows
}

// faster fills in a judgement of a rule that holds a row against something that
// does the same work: least is the log-time that surely suffices, mid its estimate, and the
// rule is broken when the row takes more than exp(margin) times as long.
func (f *family) faster(j *judgement, against results.Case, least, mid, margin float64) {
	p := j.curve.points[j.point]
	half := f.half(p.us)
	j.tested = true
	j.against, j.bound = against, margin
	j.p = upperP((p.us.y-margin-least)/p.us.se, p.us.df)
	j.broken = p.us.y-half > margin+least
	j.kept = p.us.y+half <= margin+mid
	j.loss = Interval{lost(least - p.us.y + half), lost(mid - p.us.y), lost(mid - p.us.y - half)}
}

// split: T(N1)+T(N2) may not be below T(N). Of thousands of pairs the cheapest is
// cheap by luck too, so parts are priced at upper bounds that hold for all rows
// at once: whichever pair is chosen, its price is not too low.
func (f *family) split(c *curve) []judgement {
	rows := f.blank(c)
	upper := f.upper[c]
	cost, ms := make([]float64, len(upper)), make([]int, len(upper))
	for i, u := range upper {
		cost[i], ms[i] = math.Exp(u), c.points[i].m
	}
	search := newPartition(ms, cost, 2)
	margin := math.Log1p(f.cfg.Rules.Split.Margin)
	for i, p := range c.points {
		if !p.judged(f.cfg.MinSamples) {
			continue
		}
		parts, price := search.parts(i, 2)
		if parts == nil {
			continue
		}
		j := &rows[i]
		against := j.alone()
		against.Parts, against.Label = parts, ""
		f.faster(j, against, math.Log(price), math.Log(c.sum(parts)), margin)
	}
	return rows
}

// sum is the time of parts run one after the other, in microseconds, from the
// estimates of single launches.
func (c *curve) sum(parts []int) float64 {
	var us float64
	for _, m := range parts {
		if i, ok := c.at(m); ok {
			us += math.Exp(c.points[i].us.y)
		}
	}
	return us
}

// pad: no larger M may be faster.
func (f *family) pad(c *curve) []judgement {
	rows := f.blank(c)
	upper := f.upper[c]
	above := cheapestAbove(upper)
	margin := math.Log1p(f.cfg.Rules.Pad.Margin)
	for i, p := range c.points {
		if b := above[i]; p.judged(f.cfg.MinSamples) && b >= 0 && !math.IsInf(upper[b], 1) {
			j := &rows[i]
			against := j.alone()
			against.PadTo, against.Label = c.points[b].m, ""
			f.faster(j, against, upper[b], c.points[b].us.y, margin)
		}
	}
	return rows
}
