package remedy

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// VerifyTable executes the entries of a table on a device of this machine, together with the direct product:
// the Ms of each interval's proofs, else its ends and middle. The result is in the table's order. The end of
// ctx leaves the rest unchecked and is not an error. If the measurer fails, it returns both the error and the
// checks so far.
func VerifyTable(ctx context.Context, t *table.Table, device string, cfg rules.Config, m rules.Measurer) ([]RowCheck, error) {
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("verify table: %w", err)
	}
	var checks []RowCheck
	for _, s := range t.Series {
		for _, iv := range s.Intervals {
			promised := map[int]float64{}
			var ms []int
			for _, p := range iv.Proofs {
				ms, promised[p.M] = append(ms, p.M), p.GainLo
			}
			if len(ms) == 0 {
				first := iv.FirstMeasured()
				middle := first + (iv.To-first)/2
				if iv.Step > 1 {
					middle -= (middle - first) % iv.Step
				}
				ms = slices.Compact([]int{first, middle, iv.To})
			}
			for _, m := range ms {
				checks = append(checks, RowCheck{Series: s, Name: s.String(), From: iv.From, To: iv.To, M: m, Action: iv.Action,
					Promised: promised[m], Verdict: NotChecked, Reason: "not reached"})
			}
		}
	}
	regime := results.Regime(t.Validators.Regime)
	if regime == "" {
		regime = results.Engine
	}
	for from := 0; from < len(checks); from += executeGroup {
		group := checks[from:min(from+executeGroup, len(checks))]
		var requests []results.Request
		for _, c := range group {
			subject, err := subjectOf(c.Series.Product)
			if err != nil {
				return checks, fmt.Errorf("verify table: series %v: %w", c.Series.Product, err)
			}
			key := results.SeriesKey{Device: device, Kernel: c.Series.Kernel, Subject: subject, Regime: regime,
				Threads: t.Validators.Threads}
			direct := results.Case{SeriesKey: key, M: c.M}
			remedy := direct
			switch c.Action.Kind {
			case table.Split:
				remedy.Parts = c.Action.Parts(c.M)
			case table.Pad:
				if c.Action.PadTo > c.M {
					remedy.PadTo, remedy.Copied = c.Action.PadTo, c.Action.Pad == table.Copied
				}
			case table.Kernel:
				remedy.Kernel = c.Action.Kernel
			case table.Algorithm:
				remedy.Kernel = kernels.AlgorithmName(c.Action.Kernel, kernels.Algorithm(c.Action.Algorithm))
			}
			requests = append(requests, results.Request{Case: direct, Phase: results.PhaseRemedy},
				results.Request{Case: remedy, Phase: results.PhaseRemedy, Serial: remedy.Kernel != direct.Kernel})
		}
		samples, err := m.Measure(ctx, requests, cfg.Remedy.MaxRounds)
		switch {
		case err != nil && rules.TimeUp(ctx, err):
			return checks, nil
		case err != nil:
			return checks, fmt.Errorf("verify table: %w", err)
		case len(samples) != len(requests):
			return checks, fmt.Errorf("verify table: asked for %d cases, got %d", len(requests), len(samples))
		}
		for i := range group {
			group[i].judge(samples[2*i], samples[2*i+1], cfg)
		}
	}
	return checks, nil
}

// RowCheck is one M of one interval of a table, measured again.
type RowCheck struct {
	Series table.Series `json:"-"`
	Name   string       `json:"series"`
	From   int          `json:"from"`
	To     int          `json:"to"`
	M      int          `json:"m"`
	Action table.Action `json:"action"`
	// DirectUS and RemedyUS are microseconds, Gain their ratio.
	DirectUS stats.Interval `json:"direct_us"`
	RemedyUS stats.Interval `json:"remedy_us"`
	Gain     stats.Interval `json:"gain"`
	// Promised is the gain's lower bound in the table's proof, 0 without one.
	Promised float64      `json:"promised,omitempty"`
	Verdict  CheckVerdict `json:"verdict"`
	Reason   string       `json:"reason,omitempty"`
}

func (c *RowCheck) judge(direct, remedy []results.Sample, cfg rules.Config) {
	var gains, a, b []float64
	for _, p := range rules.PairRounds(direct, remedy) {
		gains = append(gains, math.Log(p[0].US/p[1].US))
		a, b = append(a, p[0].US), append(b, p[1].US)
	}
	if len(gains) < stats.LeastPairs {
		c.Reason = fmt.Sprintf("%d pairs of samples, expected at least %d", len(gains), stats.LeastPairs)
		return
	}
	c.Gain, c.DirectUS, c.RemedyUS = stats.WalshInterval(gains, cfg.Confidence).Exp(), centreOf(a, cfg.Confidence),
		centreOf(b, cfg.Confidence)
	switch {
	case c.Gain.Lo > 1:
		c.Verdict, c.Reason = Pays, ""
	case c.Gain.Hi < 1+cfg.Remedy.Margin:
		c.Verdict, c.Reason = Rejected, fmt.Sprintf("the gain is %.3f, at most %.3f: it no longer pays", c.Gain.Mid, c.Gain.Hi)
	default:
		c.Verdict, c.Reason = PaysUnsure, fmt.Sprintf("the gain is between %.3f and %.3f", c.Gain.Lo, c.Gain.Hi)
	}
}

// PruneTable returns a copy of a table without the intervals that have a rejected check.
func PruneTable(t *table.Table, checks []RowCheck) *table.Table {
	type place struct {
		series   string
		from, to int
	}
	gone := map[place]bool{}
	for _, c := range checks {
		if c.Verdict == Rejected {
			gone[place{c.Name, c.From, c.To}] = true
		}
	}
	out := *t
	out.Series = slices.Clone(t.Series)
	for i := range out.Series {
		s := &out.Series[i]
		s.Intervals = slices.DeleteFunc(slices.Clone(s.Intervals),
			func(iv table.Interval) bool { return gone[place{s.String(), iv.From, iv.To}] })
	}
	out.Recount()
	return &out
}
