package diff

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// FewSamplesHint says what to do about rows with too few samples, measured or imported.
const FewSamplesHint = "measure each case at least 5 times, as `gemmaudit sweep` does; an import takes one line per sample, with its " +
	"number in the column round; --gate suspected fails on suspected changes"

// pairScatter is the scatter for rows of a pair of curves with too few samples of their own. It prefers the
// scatter of the rows' log ratios, which needs no smooth curve, and falls back to each curve's. Its fields
// are nil if every row has enough samples.
type pairScatter struct {
	pair        curvePair
	least       int
	ratio, a, b *infer.SeriesScatter
	// paired are the ratios by rounds, by the points of b that have a partner; nil for two runs.
	paired map[int]infer.PairedRatio
}

func newPairScatter(pair curvePair, least int, paired map[int]infer.PairedRatio) pairScatter {
	s := pairScatter{pair: pair, least: least, a: pair.a.ScatterOf(least), b: pair.b.ScatterOf(least), paired: paired}
	if s.a == nil && s.b == nil {
		return s
	}
	var m []int
	var y []float64
	for j := range pair.b.Points {
		p := &pair.b.Points[j]
		if i, ok := pair.a.At(p.M); ok {
			logs := p.US.Y - pair.a.Points[i].US.Y
			if one := paired[j]; one.Rounds > 0 {
				logs = one.Y
			}
			m, y = append(m, p.M), append(y, logs)
		}
	}
	if len(y) >= infer.BorrowRows {
		share, df := infer.AboutNeighbours(m, y)
		s.ratio = &infer.SeriesScatter{Origin: infer.BorrowedScatter, DF: df,
			Share: math.Max(math.Hypot(pair.a.WithinRows(least), pair.b.WithinRows(least)), math.Max(math.Sqrt2*infer.BorrowedFloor,
				share))}
	}
	return s
}

// compare returns the log of B's time over A's in the rows i of A and j of B, the two times, and the source
// of the ratio's scatter. The ratio is by rounds if the rows are paired.
func (s pairScatter) compare(i, j int) (ratio, a, b stats.Estimate, origin infer.ScatterOrigin) {
	a, ownA := s.pair.a.Known(i, s.least, s.a)
	b, ownB := s.pair.b.Known(j, s.least, s.b)
	ratio = stats.Difference(b, a)
	if one := s.paired[j]; one.Rounds > 0 {
		if ratio.Y = one.Y; ownA && ownB {
			ratio = one.Estimate
		}
	}
	switch {
	case ownA && ownB:
		return ratio, a, b, infer.OwnScatter
	case s.ratio != nil:
		// A side with samples of its own may scatter more than other rows do.
		if s.ratio.Share > ratio.SE || !ownA && !ownB {
			ratio.SE, ratio.DF = s.ratio.Share, s.ratio.DF
		}
		return ratio, a, b, infer.BorrowedScatter
	case !ownA && s.a.Origin == infer.AssumedScatter || !ownB && s.b.Origin == infer.AssumedScatter:
		return ratio, a, b, infer.AssumedScatter
	}
	return ratio, a, b, infer.BorrowedScatter
}

func (s pairScatter) warnings() []rules.Warning {
	one, rows := s.ratio, 0
	for _, side := range []*infer.SeriesScatter{s.a, s.b} {
		if side != nil {
			rows = max(rows, side.Rows)
			if s.ratio == nil && (one == nil || side.Share > one.Share) {
				one = side
			}
		}
	}
	if one == nil {
		return nil
	}
	told := *one
	told.Rows = rows
	return []rules.Warning{{Subject: s.pair.b.Series.Key.String(), Text: told.Text(s.least)}}
}

// suspect marks the cases whose change is beyond borrowed scatter. They are a separate family, so single
// samples don't affect the verdicts on other cases.
func (d *Result) suspect(at []int, all []stats.Estimate, cfg rules.Config) {
	threshold := math.Log1p(cfg.Diff.Threshold)
	p := make([]float64, len(at))
	for k, i := range at {
		p[k] = all[i].Beyond(threshold)
		d.Cases[i].P = p[k]
	}
	for k, adjusted := range stats.AdjustP(p) {
		c := &d.Cases[at[k]]
		c.AdjustedP = adjusted
		switch change.Within(c.Ratio, cfg.Diff.Threshold) {
		case change.Slower:
			if adjusted <= cfg.FDR {
				c.Change = change.SuspectedSlower
			}
		case change.Faster:
			if adjusted <= cfg.FDR {
				c.Change = change.SuspectedFaster
			}
		}
	}
}

// overRows is the geometric mean of ratios with Student's t of their logs over rows: the rows are a sample of
// the shapes that matter. Its interval is at least as wide as the rows' errors, and for one row equals the
// row's. levels are the uncertainties from the rows' levels.
func overRows(logs []stats.Estimate, levels []float64, confidence float64) stats.Interval {
	n := float64(len(logs))
	if n == 0 {
		return stats.Interval{}
	}
	var sum, own, df, open float64
	for i, e := range logs {
		sum, own, df, open = sum+e.Y, own+e.SE*e.SE, df+e.DF, open+levels[i]
	}
	mean := sum / n
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: math.Max(1, df)}.Quantile(1-(1-confidence)/2) * math.Sqrt(own) / n
	if n > 1 {
		squares := 0.0
		for _, e := range logs {
			squares += (e.Y - mean) * (e.Y - mean)
		}
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(1 - (1-confidence)/2)
		half = math.Max(half, t*math.Sqrt(squares/(n-1)/n))
	}
	half += open / n
	return stats.Interval{Lo: mean - half, Mid: mean, Hi: mean + half}.Exp()
}
