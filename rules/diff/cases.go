package diff

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func (d *Result) cases(pairs []curvePair, pa, pb *infer.Estimates, cfg rules.Config) {
	threshold := math.Log1p(cfg.Diff.Threshold)
	matched := map[*infer.Curve]int{}
	var tested, few []int // positions in d.Cases
	var p []float64
	var all []stats.Estimate
	var levels []float64        // uncertainty of a row's ratio from its levels
	var shared []stats.Estimate // the error shared with the others of its pair of runs
	type span struct{ from, to int }
	var spans []span
	for _, pair := range pairs {
		from := len(all)
		d.Lost += pair.a.Lost(pair.b) + pair.b.Lost(pair.a)
		pair.compareLevels()
		common := stats.Difference(pb.LevelOf(pair.b.Series.Key.Device), pa.LevelOf(pair.a.Series.Key.Device))
		if d.Run != "" {
			common = stats.Estimate{DF: math.Inf(1)} // one pace for both
		}
		var paired map[int]infer.PairedRatio
		if d.Run != "" {
			paired = pair.byRounds(pb.Scatter[pair.b.Series.Key.Device])
		}
		scatter := newPairScatter(pair, cfg.MinSamples, paired)
		d.Warnings = append(d.Warnings, scatter.warnings()...)
		for j, y := range pair.b.Points {
			i, ok := pair.a.At(y.M)
			if !ok {
				continue
			}
			x := pair.a.Points[i]
			matched[pair.a]++
			matched[pair.b]++
			ratio, inA, inB, origin := scatter.compare(i, j)
			c := Case{Series: pair.b.Series.Key, M: y.M, A: inA.Interval(cfg.Confidence, pa.Quantiles),
				B:      inB.Interval(cfg.Confidence, pb.Quantiles),
				Paired: paired[j].Rounds, P: 1, AdjustedP: 1, Change: change.Open}
			if x.Label != y.Label {
				c.LabelA, c.LabelB = x.Label, y.Label
			}
			switch {
			case x.Judged(cfg.MinSamples) && y.Judged(cfg.MinSamples):
				tested = append(tested, len(d.Cases))
			case x.Suspectable() && y.Suspectable():
				few = append(few, len(d.Cases))
				c.Scatter = origin
			}
			all, shared = append(all, ratio), append(shared, common)
			level := pair.levelsBetween(i, j)
			if c.Paired > 0 && betweenLevels(x, y) > 0 {
				level = 0 // both rows move between the levels together
			}
			levels = append(levels, level)
			d.Cases = append(d.Cases, c)
		}
		spans = append(spans, span{from, len(all)})
	}
	d.BetweenRuns = leastBetweenRuns
	if d.Run == "" {
		own := make([]stats.Estimate, len(tested))
		for k, i := range tested {
			own[k] = all[i]
		}
		d.BetweenRuns = betweenRuns(own)
	}
	whole := make([]stats.Estimate, len(all)) // including the shared error
	for i, e := range all {
		all[i].SE, all[i].Open = math.Hypot(e.SE, d.BetweenRuns), e.Open+levels[i]
		whole[i] = all[i].Sharing(shared[i])
		d.Cases[i].Ratio = whole[i].Interval(cfg.Confidence, pb.Quantiles)
	}
	for _, i := range tested {
		c := &d.Cases[i]
		c.P = whole[i].Beyond(threshold)
		p = append(p, c.P)
	}
	d.suspect(few, whole, cfg)
	for i, adjusted := range stats.AdjustP(p) {
		c := &d.Cases[tested[i]]
		c.AdjustedP = adjusted
		up, down := 1+cfg.Diff.Threshold, 1/(1+cfg.Diff.Threshold)
		switch {
		case adjusted <= cfg.FDR && c.Ratio.Lo > up:
			c.Change = change.Slower
		case adjusted <= cfg.FDR && c.Ratio.Hi < down:
			c.Change = change.Faster
		case change.Within(c.Ratio, cfg.Diff.Threshold) == change.Same:
			c.Change = change.Same
		case near(c.Ratio, up) || near(c.Ratio, down):
			c.Change = change.AtThreshold
		}
	}
	both := "runs"
	if d.Run != "" {
		both = "kernels"
	}
	d.Family = fmt.Sprintf("Benjamini–Hochberg at %g over %d cases of both %s", cfg.FDR, len(tested), both)
	// Means and stretches use the cases that can be decided.
	decidable, cases := make([][]stats.Estimate, len(pairs)), make([][]Case, len(pairs))
	for k, at := 0, 0; k < len(pairs); k++ {
		for ; at < len(tested) && tested[at] < spans[k].to; at++ {
			decidable[k], cases[k] = append(decidable[k], all[tested[at]]), append(cases[k], d.Cases[tested[at]])
		}
	}
	for k, pair := range pairs {
		from, to := spans[k].from, spans[k].to
		common := stats.Estimate{DF: math.Inf(1)}
		if from < to {
			common = shared[from]
		}
		pace := common
		if d.Run == "" {
			d.BetweenProcesses = betweenProcesses
			common = stats.Difference(common, stats.Estimate{SE: betweenProcesses, DF: math.Inf(1)})
		}
		s := Series{Series: pair.b.Series.Key, InA: pair.a.Series.Key, Cases: to - from, Change: change.Open,
			Ratio:    stats.GeometricMeanSharing(decidable[k], common, cfg.Confidence),
			OverRows: overRows(all[from:to], levels[from:to], cfg.Confidence).Sharing(common, cfg.Confidence)}
		for _, c := range d.Cases[from:to] {
			switch c.Change {
			case change.Slower:
				s.Slower++
			case change.Faster:
				s.Faster++
			case change.Same:
				d.Same++
			case change.AtThreshold:
			case change.SuspectedSlower:
				d.SuspectedSlower++
				s.Suspected++
				d.Undecided++
			case change.SuspectedFaster:
				d.SuspectedFaster++
				s.Suspected++
				d.Undecided++
			default:
				d.Undecided++
			}
		}
		d.Slower += s.Slower
		d.Faster += s.Faster
		if len(decidable[k]) > 0 {
			s.Change = change.Within(s.Ratio, cfg.Diff.Series)
		} else if to > from {
			// The level is split over the series.
			one := 1 - (1-cfg.Confidence)/float64(len(pairs))
			switch change.Within(overRows(all[from:to], levels[from:to], one).Sharing(common, one), cfg.Diff.Series) {
			case change.Slower:
				s.Change = change.SuspectedSlower
			case change.Faster:
				s.Change = change.SuspectedFaster
			}
		}
		s.Stretches = slowStretches(cases[k], decidable[k], pace, cfg, float64(len(tested)))
		d.Series = append(d.Series, s)
	}
	mean := stats.Estimate{DF: math.Inf(1)}
	if len(shared) > 0 && d.Run == "" {
		mean = stats.Difference(shared[0], stats.Estimate{SE: betweenProcesses, DF: math.Inf(1)})
	}
	d.Geomean = stats.GeometricMeanSharing(slices.Concat(decidable...), mean, cfg.Confidence)
	d.GeomeanOverRows = overRows(all, levels, cfg.Confidence).Sharing(mean, cfg.Confidence)
	for _, c := range pa.Curves {
		d.OnlyA += len(c.Points) - matched[c]
	}
	for _, c := range pb.Curves {
		d.OnlyB += len(c.Points) - matched[c]
	}
}

// losses counts the rows of a that b lacks: failed or missing rows of matched curves, and all rows of the
// others. A row that b has only with excluded samples is undecided, not a loss.
func losses(a, b []*infer.Curve, pairs []curvePair) outcome.Losses {
	var out outcome.Losses
	in := map[*infer.Curve]*infer.Curve{}
	for _, pair := range pairs {
		in[pair.a] = pair.b
	}
	keyed := make(map[results.SeriesKey]*infer.Curve, len(b))
	for _, c := range b {
		keyed[c.Series.Key] = c
	}
	for _, c := range a {
		other := in[c]
		if other == nil {
			other = keyed[c.Series.Key] // the series has no valid sample in b, but may have failures
		}
		for _, p := range c.Points {
			out.Cases++
			name := results.Case{SeriesKey: c.Series.Key, M: p.M}.String()
			if other == nil {
				out.Missing++
				out.FirstMissing = cmp.Or(out.FirstMissing, name)
				continue
			}
			if _, ok := other.At(p.M); ok {
				continue
			}
			at, there := slices.BinarySearchFunc(other.Series.Rows, p.M, func(r results.Row, m int) int { return cmp.Compare(r.Case.M, m) })
			switch {
			case !there:
				out.Missing++
				out.FirstMissing = cmp.Or(out.FirstMissing, name)
			case other.Series.Rows[at].Failed != "":
				out.Failed++
				out.FirstFailed = cmp.Or(out.FirstFailed, other.Series.Rows[at].Failed)
			}
		}
	}
	return out
}

func near(ratio stats.Interval, threshold float64) bool {
	return math.Abs(ratio.Mid-threshold) <= rules.MarginalMid && ratio.Lo >= threshold-rules.MarginalReach &&
		ratio.Hi <= threshold+rules.MarginalReach
}
