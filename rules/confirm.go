package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// confirmGroup is how many findings are measured interleaved: enough for a mixture like the sweep's, few
	// enough that a deadline loses little.
	confirmGroup = 128
	// firstLook is the share of the level spent on the first look at the samples; later looks, with added
	// rounds, split the rest evenly. A test's p-value is the minimum over its looks of p ÷ share.
	firstLook = 0.5
	// sureShare is the share of the level that a trial's p-value must reach to get no more rounds, provided
	// that nearly all trials stand. Trials are adjusted together afterwards, and the more of them stand, the
	// weaker the evidence that each needs.
	sureShare = 0.5
)

type trial struct {
	row  *Judgement
	rule Rule
	// pairs are log(row ÷ against) at the common clock by round, or log(µs) as observed for a ceiling; blur
	// is the standard error that the clock adjustment adds.
	pairs     []float64
	blur      float64
	p         float64 // minimum over looks of p ÷ share of the level
	last      float64 // p at the last look
	adjusted  float64
	loss      stats.Interval
	confirmed bool
	low       *lowTrial // nil unless the noise is one-sided
}

func (t *trial) test(share float64) {
	if len(t.pairs) < stats.LeastPairs {
		t.last = 1
		return
	}
	if t.low != nil {
		t.last = t.low.beyond(t.row.bound, t.row.sign)
	} else {
		t.last = t.signed(t.pairs, t.row.bound)
	}
	t.p = math.Min(t.p, t.last/share)
}

func (t *trial) signed(d []float64, bound float64) float64 {
	if t.row.sign >= 0 {
		return stats.SignedRank(d, bound)
	}
	turned := make([]float64, len(d))
	for i, v := range d {
		turned[i] = -v
	}
	return stats.SignedRank(turned, -bound)
}

func (t *trial) estimateLoss(confidence float64) {
	blur := t.blur
	if i, ok := t.row.Curve.At(t.row.Against.M); ok && t.row.Against.SeriesKey == t.row.direct().SeriesKey {
		// The loss is relative to the best possible time. The sweep's standard error bounds how far the
		// reference may be from it.
		blur = math.Hypot(blur, t.row.Curve.Points[i].US.SE)
	}
	around := stats.WalshInterval(t.pairs, confidence)
	if t.low != nil && len(t.pairs) > 0 {
		e := t.low.difference()
		half := stats.Quantiles{}.Upper((1-confidence)/2, e.DF) * e.SE
		around = stats.Interval{Lo: e.Y - half, Mid: e.Y, Hi: e.Y + half}
	}
	d := stats.Widen(around, blur, confidence)
	ideal := t.row.ideal
	if t.row.Against.M == 0 {
		ideal = t.row.Curve.Points[t.row.Point].Seen.Y + math.Log(1-t.row.Loss.Mid)
	}
	t.loss = stats.Interval{Lo: stats.Lost(ideal - d.Lo), Mid: stats.Lost(ideal - d.Mid), Hi: stats.Lost(ideal - d.Hi)}
}

// confirm measures candidates again: first those that the sweep proved, and among them those that rest on
// inferred rows. It measures three rows of each interval: the worst, which represents the interval, and both
// ends, which are trimmed if they are not confirmed. Interior rows of a confirmed interval keep the sweep's
// verdict. Candidates beyond the budget or the deadline stay unconfirmed.
func confirm(ctx context.Context, a *Audit, p *infer.Estimates, candidates []*Candidate, cfg Config, m Measurer) error {
	order := slices.Clone(candidates)
	slices.SortStableFunc(order, func(x, y *Candidate) int {
		if x.screened != y.screened {
			if x.screened {
				return -1
			}
			return 1
		}
		if a, b := x.restsOnInferred(), y.restsOnInferred(); a != b {
			if a {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(x.Worst.p, y.Worst.p), cmp.Compare(y.Worst.Loss.Lo, x.Worst.Loss.Lo))
	})
	screened := 0
	for _, c := range order {
		if c.screened {
			screened++
		}
	}
	if len(order) > cfg.Confirm.MaxCases {
		order = order[:cfg.Confirm.MaxCases]
		if screened > cfg.Confirm.MaxCases {
			a.warnUnconfirmed(screened-cfg.Confirm.MaxCases, "%d of %d suspect intervals were not measured again: confirm.max_cases is %d",
				screened-cfg.Confirm.MaxCases, screened, cfg.Confirm.MaxCases)
		}
	}
	// Most candidates that the sweep has proven will be confirmed.
	proven, planned := 0.0, 0.0
	for _, c := range order {
		n := float64(len(c.chosen()))
		if planned += n; c.screened {
			proven += n
		}
	}
	sure := cfg.FDR * math.Max(1, sureShare*proven) / math.Max(1, planned)
	var trials []*trial
	var failure error
	for from := 0; from < len(order); from += confirmGroup {
		group := order[from:min(from+confirmGroup, len(order))]
		done, err := confirmTogether(ctx, p, group, cfg, sure, m)
		trials = append(trials, done...)
		if err == nil {
			continue
		}
		left := 0
		for _, c := range order[from:] {
			if c.tests == nil && c.screened {
				left++
			}
		}
		if TimeUp(ctx, err) {
			a.warnUnconfirmed(left, "the time limit was reached before %s could be measured again", phrase.Count(left, "suspect interval"))
		} else {
			failure = fmt.Errorf("measure suspects again: %w", err)
			a.warnUnconfirmed(left, "measuring again failed, %s unconfirmed: %v", phrase.Count(left, "suspect interval"), err)
		}
		break
	}
	for _, rule := range AllRules() {
		var of []*trial
		var p []float64
		for _, t := range trials {
			if t.rule == rule {
				of, p = append(of, t), append(p, t.p)
			}
		}
		for i, adjusted := range stats.AdjustP(p) {
			of[i].adjusted, of[i].confirmed = adjusted, adjusted <= cfg.FDR
		}
	}
	refuted := 0
	for _, c := range order {
		if c.tests == nil {
			continue
		}
		c.settle()
		if c.refuted && c.screened {
			refuted++
		}
	}
	if refuted > 0 {
		a.warn("run", "%s did not hold up when measured again", phrase.Count(refuted, "suspect interval"))
	}
	return failure
}

func (c *Candidate) restsOnInferred() bool {
	points := c.Worst.Curve.Points
	return points[c.Worst.Point].Inferred || slices.ContainsFunc(c.Worst.Base, func(i int) bool { return points[i].Inferred })
}

func (c *Candidate) chosen() []*Judgement {
	rows := []*Judgement{c.Worst}
	for _, j := range []*Judgement{c.Rows[0], c.Rows[len(c.Rows)-1]} {
		if !slices.Contains(rows, j) {
			rows = append(rows, j)
		}
	}
	return rows
}

// instead is the verdict on a row that was not confirmed, from the fresh samples if they are enough.
func (t *trial) instead() Verdict {
	if t == nil || len(t.pairs) < stats.LeastPairs || t.row.lossBound <= 0 {
		return Undecided
	}
	again := *t.row
	again.Loss = t.loss
	switch {
	case again.marginal():
		return Marginal
	case t.loss.Mid <= t.row.lossBound-MarginalMid && t.loss.Hi <= t.row.lossBound+MarginalReach:
		return Clean
	}
	return Undecided
}

func (c *Candidate) settle() {
	// The sweep's worst row represents the interval as long as it is confirmed. The sweep's samples chose it,
	// so its fresh samples have no selection bias.
	var best *Judgement
	for _, j := range c.chosen() {
		t := c.tests[j]
		if t == nil || !t.confirmed {
			j.Verdict = t.instead()
			continue
		}
		j.Verdict, j.adjusted = Anomalous, t.adjusted
		if best == nil || best != c.Worst && t.loss.Lo > c.tests[best].loss.Lo {
			best = j
		}
	}
	if best == nil {
		c.refuted = true
		for _, j := range c.Rows {
			if c.tests[j] == nil {
				j.Verdict = Undecided
			}
		}
		return
	}
	worst := c.tests[c.Worst]
	inner := worst != nil && worst.confirmed && c.screened
	rows := c.Rows[:0:0]
	for _, j := range c.Rows {
		t := c.tests[j]
		if t != nil && t.confirmed || t == nil && inner {
			rows = append(rows, j)
		} else if t == nil {
			j.Verdict = Undecided
		}
	}
	c.Rows, c.Worst = rows, best
}

// confirmTogether measures one group, interleaved, up to the maximum number of rounds. From the second look
// on it measures only open trials. A trial with a p-value of at most sure gets no more rounds. If it fails,
// the group's candidates have no trials.
func confirmTogether(ctx context.Context, p *infer.Estimates, group []*Candidate, cfg Config, sure float64, m Measurer) ([]*trial, error) {
	var trials []*trial
	for _, c := range group {
		for _, j := range c.chosen() {
			t := &trial{row: j, rule: c.Rule, p: 1, last: 1}
			if p.Scatter[j.Curve.Series.Key.Device].Low() {
				t.low = &lowTrial{}
			}
			trials = append(trials, t)
		}
	}
	open := trials
	looks := LooksFor(cfg.Confirm.Rounds, cfg.Confirm.MaxRounds)
	done := 0
	for look := range looks {
		rounds := min(cfg.Confirm.Rounds, cfg.Confirm.MaxRounds-done)
		done += rounds
		share := 1.0
		if looks > 1 {
			share = firstLook
			if look > 0 {
				share = (1 - firstLook) / float64(looks-1)
			}
		}
		if err := measureTrials(ctx, p, open, rounds, m); err != nil {
			if look > 0 && ctx.Err() != nil {
				break // the looks so far count
			}
			return nil, err
		}
		poolLow(trials)
		var still []*trial
		for _, t := range open {
			t.test(share)
			// Sure or hopeless trials are settled.
			if t.p > sure && !(look > 0 && t.last > 0.5) && t.last < 0.95 {
				still = append(still, t)
			}
		}
		if open = still; len(open) == 0 {
			break
		}
	}
	for _, t := range trials {
		t.estimateLoss(cfg.Confidence)
	}
	for _, c := range group {
		c.tests = map[*Judgement]*trial{}
		for _, t := range trials {
			if slices.Contains(c.Rows, t.row) {
				c.tests[t.row] = t
			}
		}
	}
	return trials, nil
}

// measureTrials adds rounds of pairs to every trial. Cases that several trials
// share are measured once.
func measureTrials(ctx context.Context, p *infer.Estimates, trials []*trial, rounds int, m Measurer) error {
	var requests []results.Request
	var cases []results.Case // parallel to requests, on their curves
	index := map[results.CaseKey]int{}
	ask := func(c results.Case) int {
		c.ID = 0
		key := c.Key()
		if i, ok := index[key]; ok {
			return i
		}
		index[key] = len(requests)
		requests, cases = append(requests, results.Request{Case: c.Real(), Phase: results.PhaseConfirm}), append(cases, c)
		return len(requests) - 1
	}
	type pair struct{ row, against int }
	pairs := make([]pair, len(trials))
	for i, t := range trials {
		pairs[i] = pair{ask(t.row.direct()), -1}
		if t.row.Against.M > 0 {
			pairs[i].against = ask(*t.row.Against)
		}
	}
	samples, err := m.Measure(ctx, requests, rounds)
	if err != nil {
		return err
	}
	if len(samples) != len(requests) {
		return fmt.Errorf("asked for %d cases, got %d", len(requests), len(samples))
	}
	for i, t := range trials {
		row := samples[pairs[i].row]
		if pairs[i].against < 0 {
			for _, s := range row {
				if s.Usable() {
					t.pairs = append(t.pairs, infer.RanFor(&s))
				}
			}
			if t.low != nil {
				t.low.sides[0] = t.pairs
			}
			continue
		}
		both := PairRounds(row, samples[pairs[i].against])
		of, against := p.Elasticity(cases[pairs[i].row]), p.Elasticity(cases[pairs[i].against])
		reference := p.Clocks[t.row.Curve.Series.Key.Device]
		for _, s := range both {
			at := [2]float64{infer.AtClock(s[0], of.Beta, reference), infer.AtClock(s[1], against.Beta, reference)}
			t.pairs = append(t.pairs, at[0]-at[1])
			if t.low != nil {
				for k, y := range at {
					t.low.sides[k] = append(t.low.sides[k], y)
				}
			}
		}
		t.blur = infer.Blur(both, of, against, reference)
	}
	return nil
}

// PairRounds joins the samples of two requests of one call, round by round. The kth sample of a request is
// from the call's kth round, because a case that fails is dropped for the rest of the call. Sample.Round
// can't be used: it counts over the whole run, and a reference shared by several suspects has seen more
// rounds.
func PairRounds(a, b []results.Sample) [][2]results.Sample {
	var out [][2]results.Sample
	for k := range min(len(a), len(b)) {
		if a[k].Usable() && b[k].Usable() {
			out = append(out, [2]results.Sample{a[k], b[k]})
		}
	}
	return out
}

// TimeUp reports whether a measurement ended because its time was up, not by a failure.
func TimeUp(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// LooksFor is how many looks it takes to reach the most rounds.
func LooksFor(rounds, most int) int { return (most + rounds - 1) / rounds }
