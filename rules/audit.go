package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules/cards"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/search"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// RunAudit applies the rules that cfg switches on to a run. With a measurer, it measures suspect rows again
// and reports only those that are confirmed. Without one (nil) the findings are unconfirmed. The article's
// method never measures.
//
// If the measurer fails, RunAudit returns both the error and the audit; rows not measured are unconfirmed in
// it. The end of ctx is a warning, not an error.
func RunAudit(ctx context.Context, data infer.Data, cfg Config, m Measurer) (*Audit, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	swept := data
	data = data.Along(cfg.Basis())
	a := &Audit{Schema: AuditSchema, Run: data.Name, Labels: data.Meta.Labels, Imported: data.Meta.Source != "", Method: cfg.Method,
		Threshold: cfg.Threshold, Findings: []Finding{}}
	if cfg.Along != infer.AlongAuto {
		a.Along = cfg.Along
	}
	for _, s := range data.Series {
		a.Cases += len(s.Rows)
		failed := 0
		var reason string
		for _, r := range s.Rows {
			if r.Failed != "" {
				failed++
				reason = r.Failed
			}
		}
		if failed > 0 {
			a.warn(s.Key.String(), "not judged: %s that failed: %s", phrase.Count(failed, "case"), reason)
		}
	}
	if data.Cut != nil {
		a.warn("deadline", "%v", data.Cut)
	}
	WarnWrong(data, a.warn)
	var err error
	if cfg.Method == MethodArticle {
		auditArticle(a, data, cfg)
	} else {
		err = auditIntervals(ctx, a, data, cfg, m)
	}
	changes, encodeErr := CompareConfigs(Default(), cfg)
	err = errors.Join(err, encodeErr)
	for i := range a.Findings {
		a.Findings[i].JudgeAgain(cfg, changes)
	}
	a.Waive(cfg, data.Keys())
	a.AddSustained(data, cfg)
	a.LaunchDiffers = launchDiffers(swept, m)
	if len(a.Series) == 1 {
		a.Flagged = a.Series[0].Flagged
	}
	return a, err
}

func (a *Audit) warn(subject, format string, args ...any) {
	a.Warnings = append(a.Warnings, Warning{Subject: subject, Text: fmt.Sprintf(format, args...)})
}

// warnUnconfirmed adds a warning that n suspect intervals were not measured again.
func (a *Audit) warnUnconfirmed(n int, format string, args ...any) {
	a.warn("run", format, args...)
	a.Warnings[len(a.Warnings)-1].Unconfirmed = n
}

func sortFindings(f []Finding) {
	rank := map[Status]int{Confirmed: 0, Unconfirmed: 1, Suspected: 2, Waived: 3}
	order := AllRules()
	slices.SortStableFunc(f, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank[a.Status], rank[b.Status]), cmp.Compare(b.StakeUS, a.StakeUS),
			cmp.Compare(slices.Index(order, a.Rule), slices.Index(order, b.Rule)),
			strings.Compare(a.Series.String(), b.Series.String()), cmp.Compare(a.FromM, b.FromM))
	})
}

func auditIntervals(ctx context.Context, a *Audit, data infer.Data, cfg Config, m Measurer) error {
	a.FDR = cfg.FDR
	looked := make(chan infer.Conditions, 1)
	go func() { looked <- infer.ReadConditions(data.Series) }()
	p := infer.Prepare(data, cfg.Basis())
	p.FindFloors(data)
	found := <-looked
	p.Round(found.Timers)
	a.Clocks = p.Clocks
	for _, paced := range p.Paced {
		a.Corrected = a.Corrected || paced
	}
	if len(p.Drift) > 0 {
		a.Drift = p.Drift.Most()
	} else if data.Meta.Source == "" && a.Cases > 0 {
		a.warn("run", "too few sentinel samples: drift is unknown, and corrected only between rounds")
	}
	a.Scatter, a.Resolution = p.Scatter, p.Resolve(cfg.Basis())
	a.Invalid = p.Invalid(a.Resolution, cfg.Basis())
	a.warnConditions(p, found)
	a.Cards = cards.Compare(p, cards.Limits{Threshold: cfg.Cards.Threshold, FDR: cfg.FDR, Confidence: cfg.Confidence,
		MinSamples: cfg.MinSamples})
	var panels []Panel
	var candidates []*Candidate
	tested := 0
	judgeEach(p, cfg, func(pn Panel) {
		tested += pn.tests()
		if a.Invalid == "" {
			pn.clear(a.Resolution)
			if len(panels) == 0 {
				a.CleanBelow = pn.cleanBelow(a.Resolution)
			}
		}
		a.Judged = append(a.Judged, pn.judged())
		a.Fusing = append(a.Fusing, pn.fusing(cfg.FDR)...)
		first := len(candidates)
		for _, rows := range pn.Rows {
			for _, c := range Merge(pn.Rule, rows, func(j *Judgement) bool { return j.Verdict == Anomalous }, Bridges) {
				c.screened = true
				candidates = append(candidates, c)
			}
			if m != nil {
				candidates = append(candidates, Merge(pn.Rule, rows, func(j *Judgement) bool {
					return j.Verdict == Undecided && j.Tested && j.p <= suspectP
				}, Bridges)...)
			}
		}
		if m == nil && len(panels) > 0 {
			// Only the first rule's verdicts are listed, and they will not change.
			for _, c := range candidates[first:] {
				c.detach()
			}
			pn.Rows = nil
		}
		panels = append(panels, pn)
	})
	a.Tests = tested
	if len(panels) > 0 {
		a.RowRule = panels[0].Rule
	}
	a.Family = fmt.Sprintf("Benjamini–Hochberg at %g over the rows of each rule (%d tests in %d families)",
		cfg.FDR, tested, len(panels))
	var swept [][][]RowProof
	if m != nil {
		swept = verdictsOf(panels)
	}
	var err error
	if m != nil && a.Invalid == "" {
		err = confirm(ctx, a, p, candidates, cfg, m)
		candidates = rejoin(candidates, panels)
		a.retested = retested(panels, swept)
		a.settleFusing(a.retested[Fusion])
	}
	for _, c := range candidates {
		if c.refuted || (!c.screened && c.tests == nil) {
			continue
		}
		f := Explained(c)
		a.Findings = append(a.Findings, f)
		if a.Losses == nil {
			a.Losses = map[string]map[int]stats.Interval{}
		}
		a.Losses[f.ID] = c.losses()
		for _, j := range c.Rows {
			j.cause, j.cleared = f.Cause, false
		}
	}
	if why, all := p.Untimely(); all && len(a.Findings) == 0 {
		a.Invalid, a.Order = cmp.Or(a.Invalid, why), why
	} else if why != "" {
		a.warn("run", "%s", why)
	}
	suspected, compared := Suspects(p, cfg)
	a.Findings = append(a.Findings, suspected...)
	for i := range a.Judged {
		a.Judged[i].Suspectable = compared[a.Judged[i].Rule]
	}
	if len(panels) > 1 {
		clear(panels[1:]) // with many rows they need as much memory as the verdicts below
	}
	for i, c := range p.Curves {
		a.Series = append(a.Series, seriesAudit(c, panels, i, cfg, p.Quantiles))
		a.countInferred(c)
		if len(panels) > 0 {
			panels[0].Rows[i] = nil
		}
		c.Points, c.Made, c.Families = nil, nil, nil // replaced by the verdicts
		last := &a.Series[len(a.Series)-1]
		for _, r := range last.Rows {
			switch r.Verdict {
			case Undecided:
				a.Undecided++
			case Marginal:
				a.Marginal++
			case Unjudged:
				a.Unjudged++
			}
		}
		if h := last.Floor; h != nil {
			a.warn(last.Key.String(), "rows up to %s take %s to %s us for any product: launch overhead of the host, not the kernel",
				last.Key.Coordinate(h.ToM), phrase.Figure(h.FromUS), phrase.Figure(h.ToUS))
		}
		if of := last.Scatter; of != nil {
			a.warn(last.Key.String(), "%s", of.Text(cfg.MinSamples))
		}
	}
	return err
}

// suspectP is the p-value below which an undecided row is measured again if a device is available.
const suspectP = 0.05

func seriesAudit(c *infer.Curve, panels []Panel, at int, cfg Config, q stats.Quantiles) SeriesAudit {
	s := SeriesAudit{Key: c.Series.Key, Cases: len(c.Series.Rows), Flagged: []int{}, Scatter: c.ScatterOf(cfg.MinSamples),
		RelativeMFU: c.Series.Peak.FLOPS <= 0, Floor: c.Floor}
	if c.Families != nil {
		count := c.Families.Count
		s.Cases, s.Inference = count.Asked, &count
	}
	if len(c.Points) > 0 {
		s.Rows = make([]RowVerdict, 0, len(c.Points))
	}
	var rows []Judgement
	if len(panels) > 0 {
		rows = panels[0].Rows[at]
	}
	for i := range c.Points {
		p := &c.Points[i]
		r := RowVerdict{M: p.M, Verdict: Unjudged, US: p.US.Interval(cfg.Confidence, q), P: 1, AdjustedP: 1,
			MFU: c.MFU(i, p.US, cfg.Confidence, q), Samples: p.N, Label: p.Label, ClockMHz: p.Clock,
			MFUAtClock: c.MFUAtClock(i, cfg.Confidence, q), Elasticity: p.Elastic.Beta, Inferred: p.Inferred}
		if p.US.Y != p.Seen.Y {
			r.ObservedUS = p.Seen.Interval(cfg.Confidence, q)
		}
		if p.Modes != nil {
			r.Modes = []float64{math.Exp(p.Modes.Fast), math.Exp(p.Modes.Slow)}
		}
		if rows != nil {
			j := &rows[i]
			r.Verdict, r.P, r.AdjustedP, r.Expected = j.said(), j.p, j.adjusted, j.expected
			if j.Tested {
				r.Reference = j.Against.M
			}
			if j.Verdict == Anomalous {
				r.Cause = j.cause
				s.Flagged = append(s.Flagged, p.M)
			}
		}
		var bound bool
		if r.HostUS, bound = c.HostTime(i); bound || c.Floor.Holds(p.M) {
			r.Cause = cause.HostBound
		}
		s.Rows = append(s.Rows, r)
	}
	return s
}

func auditArticle(a *Audit, data infer.Data, cfg Config) {
	if cfg.Rules.Monotonic.Enabled {
		a.RowRule = Monotonic
	}
	further := infer.FurtherChoices(data.Series)
	for _, r := range cfg.On() {
		if slices.Contains(ArticleRules(), r) {
			a.Judged = append(a.Judged, Judged{Rule: r})
		} else {
			a.NotApplied = append(a.NotApplied, r)
		}
	}
	for _, s := range data.Series {
		if further[s.Key] {
			continue
		}
		points := ArticlePoints(s)
		if len(cfg.On()) > 0 {
			a.Tests += len(points)
		}
		for i := range a.Judged {
			a.Judged[i].Rows += len(points)
			a.Judged[i].Decided += len(points)
		}
		c := &infer.Curve{Series: s, Spec: data.Spec(s.Key.Device), Points: make([]infer.Point, len(points))}
		for i, p := range points {
			run := s.Rows[p.row].Case
			c.Points[i] = infer.Point{Row: p.row, M: p.M, Label: run.Label, Launch: run.Launch, N: len(s.Rows[p.row].Samples),
				Flops: math.Log(p.rate * p.Us), US: stats.Estimate{Y: math.Log(p.Us)}}
		}
		c.Peak = math.Log(articlePeak(s, points))
		out := SeriesAudit{Key: s.Key, Cases: len(s.Rows), Flagged: []int{}, RelativeMFU: s.Peak.FLOPS <= 0}
		if cfg.Rules.Monotonic.Enabled {
			reference, flagged := ArticleFlag(points, cfg.Threshold)
			rows := make([]Judgement, len(points))
			for i, p := range points {
				r := RowVerdict{M: p.M, Verdict: Unjudged, US: stats.Exactly(p.Us), MFU: stats.Exactly(p.mfu), P: 1, AdjustedP: 1,
					Samples: c.Points[i].N, Label: c.Points[i].Label}
				rows[i] = Judgement{Curve: c, Point: i, Verdict: Clean, sign: 1, p: 1, adjusted: 1, Against: nothing}
				if b := reference[i]; b >= 0 {
					r.Verdict = Clean
					r.Reference, r.Expected = points[b].M, cfg.Threshold*points[b].mfu
					rows[i].Against = &s.Rows[points[b].row].Case
					rows[i].Loss = stats.Exactly(1 - p.mfu/points[b].mfu)
				}
				if flagged[i] {
					r.Verdict, rows[i].Verdict = Anomalous, Anomalous
					out.Flagged = append(out.Flagged, p.M)
				}
				out.Rows = append(out.Rows, r)
			}
			for _, k := range Merge(Monotonic, rows, func(j *Judgement) bool { return j.Verdict == Anomalous },
				func(*Judgement) bool { return false }) {
				f := Explained(k)
				a.Findings = append(a.Findings, f)
				for _, j := range k.Rows {
					out.Rows[j.Point].Cause = f.Cause
				}
			}
		}
		a.Series = append(a.Series, out)
		if cfg.Rules.Split.Enabled {
			rows := make([]Judgement, len(points))
			for i := range rows {
				rows[i] = Judgement{Curve: c, Point: i, Verdict: Clean, sign: 1, p: 1, adjusted: 1, Against: nothing}
			}
			for _, sp := range ArticleSplits(points, nil, 1/(1+cfg.Rules.Split.Margin)) {
				j := &rows[sp.At]
				j.Verdict, j.Loss = Anomalous, stats.Exactly(1-sp.Predicted/points[sp.At].Us)
				against := j.direct()
				against.Parts, against.Label = sp.Parts, ""
				j.Against = &against
			}
			for _, k := range Merge(SplitRule, rows, func(j *Judgement) bool { return j.Verdict == Anomalous },
				func(*Judgement) bool { return false }) {
				a.Findings = append(a.Findings, Explained(k))
			}
		}
	}
}

type articleSplit struct {
	At        int // position of the point
	Parts     []int
	Predicted float64
}

// ArticleSplits is the published split rule. For each N it takes the least T(N1)+T(N2) with N1+N2 = N, both
// measured, and keeps it if it is below ratio × T(N). among restricts it to flagged points; nil means all.
// Among equal sums it takes the smallest N1.
func ArticleSplits(points []articlePoint, among []bool, ratio float64) []articleSplit {
	ms, cost := make([]int, len(points)), make([]float64, len(points))
	for i, p := range points {
		ms[i], cost[i] = p.M, p.Us
	}
	cheapest := search.New(ms, cost, 2)
	var out []articleSplit
	for i, p := range points {
		if among != nil && !among[i] {
			continue
		}
		if parts, sum := cheapest.Parts(i, 2); parts != nil && sum < ratio*p.Us {
			out = append(out, articleSplit{i, parts, sum})
		}
	}
	return out
}
