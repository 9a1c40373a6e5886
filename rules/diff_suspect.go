package rules

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// The changes of cases, and of series, that rest on borrowed or assumed scatter: see [ScatterOrigin].
const (
	SuspectedSlower Change = "suspected slower"
	SuspectedFaster Change = "suspected faster"
)

// Changed says whether a case is slower or faster, surely or as suspected.
func (c Change) Changed() bool {
	return c == Slower || c == Faster || c == SuspectedSlower || c == SuspectedFaster
}

// FewSamplesHint is what can be done about rows with too few samples, measured or imported.
const FewSamplesHint = "give each case 5 samples or more: `gemmaudit sweep` does, and an import takes one line for each, numbered in the column round; --gate suspected fails on what is suspected"

// UndecidedHint is what can be done about the cases that are undecided.
func (d *DiffResult) UndecidedHint() string {
	for _, c := range d.Whole().Cases {
		if c.Scatter != "" {
			return FewSamplesHint
		}
	}
	return "more --rounds in both runs, or a larger --threshold"
}

// SuspectsSlower says whether a case or a whole series is suspected to be slower.
func (d *DiffResult) SuspectsSlower() bool {
	return d.SuspectedSlower > 0 || slices.ContainsFunc(d.Series, func(s SeriesDiff) bool { return s.Change == SuspectedSlower })
}

// pairScatter is the scatter of a pair of curves where rows have too few samples for their own: of the log ratios of their rows, where
// there are enough to borrow from, which needs no smooth curve; else of either curve. Its fields are nil where nothing is missing.
type pairScatter struct {
	pair        curvePair
	least       int
	ratio, a, b *SeriesScatter
}

func newPairScatter(pair curvePair, least int) pairScatter {
	s := pairScatter{pair: pair, least: least, a: pair.a.scatterOf(least), b: pair.b.scatterOf(least)}
	if s.a == nil && s.b == nil {
		return s
	}
	var m []int
	var y []float64
	for j := range pair.b.points {
		p := &pair.b.points[j]
		if i, ok := pair.a.at(p.m); ok {
			m, y = append(m, p.m), append(y, p.us.y-pair.a.points[i].us.y)
		}
	}
	if len(y) >= borrowRows {
		share, df := aboutNeighbours(m, y)
		s.ratio = &SeriesScatter{Origin: BorrowedScatter, df: df,
			Share: math.Max(math.Hypot(pair.a.withinRows(least), pair.b.withinRows(least)), math.Max(math.Sqrt2*borrowedFloor, share))}
	}
	return s
}

// compare is the log of B's time over A's in the rows i of A and j of B, the times themselves, and the origin of the ratio's scatter.
func (s pairScatter) compare(i, j int) (ratio, a, b estimate, origin ScatterOrigin) {
	a, ownA := s.pair.a.known(i, s.least, s.a)
	b, ownB := s.pair.b.known(j, s.least, s.b)
	ratio = difference(b, a)
	switch {
	case ownA && ownB:
		return ratio, a, b, OwnScatter
	case s.ratio != nil:
		// Where one side has samples of its own, they may scatter by more than the others' rows.
		if s.ratio.Share > ratio.se || !ownA && !ownB {
			ratio.se, ratio.df = s.ratio.Share, s.ratio.df
		}
		return ratio, a, b, BorrowedScatter
	case !ownA && s.a.Origin == AssumedScatter || !ownB && s.b.Origin == AssumedScatter:
		return ratio, a, b, AssumedScatter
	}
	return ratio, a, b, BorrowedScatter
}

// warnings say what stands for the scatter of rows that have too few samples.
func (s pairScatter) warnings() []Warning {
	one, rows := s.ratio, 0
	for _, side := range []*SeriesScatter{s.a, s.b} {
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
	return []Warning{{s.pair.b.series.Key.String(), told.text(s.least)}}
}

// suspectable says whether a point without enough samples can be compared all the same.
func (p *point) suspectable() bool { return p.n > 0 && !p.away && p.modes == nil }

// suspect marks the cases whose change is beyond scatter that is not their own. They are a family of their own, so that single samples
// neither help nor hinder what is known.
func (d *DiffResult) suspect(at []int, all []estimate, cfg Config) {
	threshold := math.Log1p(cfg.Diff.Threshold)
	p := make([]float64, len(at))
	for k, i := range at {
		p[k] = changeP(all[i], threshold)
		d.Cases[i].P = p[k]
	}
	for k, adjusted := range benjaminiHochberg(p) {
		c := &d.Cases[at[k]]
		c.AdjustedP = adjusted
		switch within(c.Ratio, cfg.Diff.Threshold) {
		case Slower:
			if adjusted <= cfg.FDR {
				c.Change = SuspectedSlower
			}
		case Faster:
			if adjusted <= cfg.FDR {
				c.Change = SuspectedFaster
			}
		}
	}
}

// changeP is the p-value that a log ratio lies within the threshold: two one-sided tests, of which the smaller counts twice.
func changeP(e estimate, threshold float64) float64 {
	return math.Min(1, 2*math.Min(upperP((e.y-threshold)/e.se, e.df), upperP((-e.y-threshold)/e.se, e.df)))
}

// overRows is the geometric mean of ratios with Student's t of their logs over rows: the rows are taken as a sample of the shapes that
// matter. It is never narrower than the errors of the rows leave it, and of one row it is that row's interval. levels are how far the
// levels of rows leave their ratios open.
func overRows(logs []estimate, levels []float64, confidence float64) Interval {
	n := float64(len(logs))
	if n == 0 {
		return Interval{}
	}
	var sum, own, df, open float64
	for i, e := range logs {
		sum, own, df, open = sum+e.y, own+e.se*e.se, df+e.df, open+levels[i]
	}
	mean := sum / n
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: math.Max(1, df)}.Quantile(1-(1-confidence)/2) * math.Sqrt(own) / n
	if n > 1 {
		squares := 0.0
		for _, e := range logs {
			squares += (e.y - mean) * (e.y - mean)
		}
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(1 - (1-confidence)/2)
		half = math.Max(half, t*math.Sqrt(squares/(n-1)/n))
	}
	half += open / n
	return Interval{mean - half, mean, mean + half}.exp()
}
