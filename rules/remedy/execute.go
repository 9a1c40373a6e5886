package remedy

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const executeGroup = 96

type contest struct {
	stretch *stretchPlan
	point   int // -1 for an M that was not swept
	m       int
	near    int // the nearest swept M, if M was not swept
	entries []*entry
}

func (c *contest) direct() results.Case {
	if c.point >= 0 {
		return *c.stretch.curve.CaseOf(c.point)
	}
	return results.Case{SeriesKey: c.stretch.curve.Series.Key, M: c.m}
}

// entry is one remedy in a contest, with log(direct ÷ remedy) by round: at the common
// clock and as observed.
type entry struct {
	plan   plan
	remedy rules.Remedy
	gains  []float64
	seen   []float64
	blur   float64   // of the gains; see [infer.Blur]
	direct []float64 // the direct product by round, microseconds
	times  []float64 // of the remedy
	p      float64   // minimum over looks, corrected for looks and rivals
	paying bool
}

// execute runs the predicted remedies: at both ends of every stretch and at the row with the largest gain,
// interleaved with the direct product. A remedy pays under three conditions. The lower bound of its gain is
// above 1 + margin, at a level corrected for its rivals and for every look. Its p-value survives
// Benjamini–Hochberg over all executed remedies. The direct product was not slowed by other work. A stretch
// is cut to the rows that pay.
func execute(ctx context.Context, r *Result, f *rules.Facts, found []*stretchPlan, o Options, m rules.Measurer) error {
	slices.SortStableFunc(found, func(a, b *stretchPlan) int { return cmp.Compare(b.saving, a.saving) })
	var contests []*contest
	skipped := 0
	for _, s := range found {
		s.name(m)
		rows := []int{s.anchor}
		for _, i := range []int{s.points[0], s.points[len(s.points)-1]} {
			if !slices.Contains(rows, i) {
				rows = append(rows, i)
			}
		}
		if len(contests)+len(rows) > f.Cfg.Remedy.MaxCases {
			skipped++
			r.Untried += len(rows)
			continue
		}
		for _, i := range rows {
			c := &contest{stretch: s, point: i, m: s.curve.Points[i].M}
			for _, p := range s.plans {
				c.entries = append(c.entries, &entry{plan: p, remedy: s.predicted(f, p, i), p: 1})
			}
			contests = append(contests, c)
		}
	}
	look := newResultLook(r, o, m)
	if look.restricts() {
		var err error
		var left, unreached int
		if contests, left, unreached, err = look.admit(ctx, contests); err != nil {
			return fmt.Errorf("check results: %w", err)
		}
		r.LeftOut += left
		r.Untried += unreached
	}
	if skipped > 0 {
		r.warn("run", "%d of %d stretches with a predicted remedy were not executed: remedy.max_cases is %d", skipped, len(found),
			f.Cfg.Remedy.MaxCases)
	}
	var failure error
	done := contests
	for from := 0; from < len(contests); from += executeGroup {
		group := contests[from:min(from+executeGroup, len(contests))]
		err := runContests(ctx, f.Estimates, group, f.Cfg, m)
		if err == nil {
			continue
		}
		done = contests[:from]
		r.Untried += len(contests) - from
		if rules.TimeUp(ctx, err) {
			r.warn("run", "the time limit was reached before %s with a predicted remedy could be executed",
				phrase.Count(len(contests)-from, "row"))
		} else {
			failure = fmt.Errorf("execute remedies: %w", err)
			r.warn("run", "executing remedies failed, %s not tried: %v", phrase.Count(len(contests)-from, "row"), err)
		}
		break
	}
	rate(f.Cfg, done)
	if err := look.proof(ctx, done); err != nil && failure == nil {
		failure = fmt.Errorf("check results: %w", err)
	}
	settled := award(r, f.Cfg, done)
	if o.Fill && failure == nil {
		failure = fill(ctx, r, f, settled, look, m)
	}
	r.settle(settled)
	return failure
}

func runContests(ctx context.Context, p *infer.Estimates, group []*contest, cfg rules.Config, m rules.Measurer) error {
	open := group
	looks := rules.LooksFor(cfg.Remedy.Rounds, cfg.Remedy.MaxRounds)
	bound := math.Log1p(cfg.Remedy.Margin)
	for look := range looks {
		rounds := min(cfg.Remedy.Rounds, cfg.Remedy.MaxRounds-look*cfg.Remedy.Rounds)
		if err := runRounds(ctx, p, open, rounds, m); err != nil {
			if look > 0 && ctx.Err() != nil {
				break
			}
			return err
		}
		var still []*contest
		for _, c := range open {
			decided := true
			for _, e := range c.entries {
				price := float64(looks * len(c.entries))
				last := 1.0
				if len(e.gains) >= stats.LeastPairs {
					// It must gain at the common clock and in observed time.
					last = math.Max(stats.SignedRank(e.gains, bound), stats.SignedRank(e.seen, bound))
				}
				e.p = math.Min(e.p, math.Min(1, last*price))
				level := 1 - (1-cfg.Confidence)/price
				gain, seen := stats.Widen(stats.WalshInterval(e.gains, level), e.blur, level), stats.WalshInterval(e.seen, level)
				e.remedy.Executed = len(e.gains) > 0
				e.remedy.ClockGain, e.remedy.ObservedGain = gain.Exp(), seen.Exp()
				if seen.Lo < gain.Lo {
					gain = seen
				}
				e.remedy.Gain = gain.Exp()
				decided = decided && (gain.Lo > bound || gain.Hi < bound || last > 0.5)
			}
			if !decided {
				still = append(still, c)
			}
		}
		if open = still; len(open) == 0 {
			break
		}
	}
	for _, c := range group {
		for _, e := range c.entries {
			if len(e.times) == 0 {
				continue
			}
			// The gain is from pairs, so it is shown with the product's time in these rounds, not in the
			// sweep.
			e.remedy.SweepUS, e.remedy.DirectUS = e.remedy.DirectUS, centreOf(e.direct, cfg.Confidence).Mid
			e.remedy.ExecutedUS = centreOf(e.times, cfg.Confidence)
			e.remedy.Unsteady = e.remedy.DirectUS > e.remedy.SweepUS*(1+cfg.Remedy.Slower)
		}
	}
	return nil
}

func centreOf(us []float64, confidence float64) stats.Interval {
	logs := make([]float64, len(us))
	for i, v := range us {
		logs[i] = math.Log(v)
	}
	return stats.WalshInterval(logs, confidence).Exp()
}

func runRounds(ctx context.Context, p *infer.Estimates, contests []*contest, rounds int, m rules.Measurer) error {
	var requests []results.Request
	type request struct {
		results.CaseKey
		serial bool
		group  int
	}
	index := map[request]int{}
	// A remedy runs next to its product, so slow changes of the clock affect both alike.
	ask := func(c results.Case, serial bool, group int) int {
		c.ID, c.Label = 0, ""
		key := request{c.Key(), serial, group}
		i, ok := index[key]
		if !ok {
			i = len(requests)
			index[key] = i
			requests = append(requests, results.Request{Case: c.Real(), Phase: results.PhaseRemedy, Serial: serial, Group: group})
		}
		return i
	}
	type pair struct {
		contest        *contest
		entry          *entry
		direct, remedy int
	}
	var pairs []pair
	for i, c := range contests {
		direct := c.direct()
		d := ask(direct, false, i+1)
		for _, e := range c.entries {
			pairs = append(pairs, pair{c, e, d, ask(e.remedy.Case(direct), e.remedy.Serial(), i+1)})
		}
	}
	samples, err := m.Measure(ctx, requests, rounds)
	if err != nil {
		return err
	}
	if len(samples) != len(requests) {
		return fmt.Errorf("asked for %d cases, got %d", len(requests), len(samples))
	}
	for _, pair := range pairs {
		e, both := pair.entry, rules.PairRounds(samples[pair.direct], samples[pair.remedy])
		direct, standIn := pair.contest.swept(e.plan)
		of, remedy := p.Elasticity(direct), p.Elasticity(standIn)
		reference := p.Clocks[direct.Device]
		for _, s := range both {
			e.gains = append(e.gains, infer.AtClock(s[0], of.Beta, reference)-infer.AtClock(s[1], remedy.Beta, reference))
			e.seen = append(e.seen, math.Log(s[0].US/s[1].US))
			e.direct = append(e.direct, s[0].US)
			e.times = append(e.times, s[1].US)
		}
		e.blur = infer.Blur(both, of, remedy, reference)
	}
	return nil
}

func rate(cfg rules.Config, contests []*contest) {
	var all []*entry
	var p []float64
	for _, c := range contests {
		for _, e := range c.entries {
			all, p = append(all, e), append(p, e.p)
		}
	}
	for i, adjusted := range stats.AdjustP(p) {
		e := all[i]
		e.paying = adjusted <= cfg.FDR && e.remedy.Gain.Lo > 1+cfg.Remedy.Margin && !e.remedy.Unsteady
		e.remedy.Pays = e.paying
		if e.remedy.Executed {
			e.remedy.AdjustedP = adjusted
		}
	}
}

// swept returns the swept cases whose elasticity the executed product and plan use. For an M that was not
// swept this is the nearest swept one, for an algorithm the library's choice that it was found as.
func (c *contest) swept(p plan) (direct, remedy results.Case) {
	direct = c.direct()
	if c.point < 0 {
		direct.M = c.near
	}
	r, _ := p.remedy(direct.M)
	remedy = r.Case(direct)
	if p.kind == rules.RemedyAlgorithm {
		remedy.Kernel = p.other.Series.Key.Kernel
	}
	return direct, remedy
}
