package rules

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

type articlePoint struct {
	row  int // index into the series
	M    int
	Us   float64
	rate float64 // FLOP per microsecond
	mfu  float64 // as published, else rate relative to [articlePeak]
}

// ArticlePoints takes the median of each row of a series. It prefers the published MFU, because the published
// counts follow from those digits. If the peak is unknown and a row lacks a published MFU, all rows are
// compared by rate.
func ArticlePoints(s results.Series) []articlePoint {
	points := make([]articlePoint, 0, len(s.Rows))
	published := make([]float64, 0, len(s.Rows))
	for i, r := range s.Rows {
		if us, ok := infer.RowMedian(r); ok {
			points = append(points, articlePoint{row: i, M: r.Case.M, Us: us, rate: r.Case.FLOPs() / us})
			published = append(published, publishedMFU(r))
		}
	}
	peak := articlePeak(s, points)
	mixed := s.Peak.FLOPS <= 0 && slices.Contains(published, 0)
	for i := range points {
		p := &points[i]
		if p.mfu = p.rate / peak; published[i] > 0 && !mixed {
			p.mfu = published[i]
		}
	}
	return points
}

// articlePeak is the reference for rates, in FLOP per microsecond: the peak of the series, else its fastest
// row.
func articlePeak(s results.Series, points []articlePoint) float64 {
	if s.Peak.FLOPS > 0 {
		return s.Peak.FLOPS / 1e6
	}
	var peak float64
	for _, p := range points {
		peak = max(peak, p.rate)
	}
	return peak
}

// publishedMFU is the median published MFU of a row, 0 if any sample lacks one.
func publishedMFU(r results.Row) float64 {
	values := make([]float64, 0, len(r.Samples))
	for _, s := range r.Samples {
		if !s.Usable() {
			continue
		}
		if s.Utils <= 0 {
			return 0
		}
		values = append(values, s.Utils)
	}
	if len(values) == 0 {
		return 0
	}
	return stats.Median(values)
}

// ArticleFlag is the published rule: a row is flagged if the largest MFU among strictly smaller M, times the
// threshold, is above its own. It returns the position of that reference for each point, or -1, and whether
// the point is flagged. Among equal MFUs the smallest M is the reference.
func ArticleFlag(points []articlePoint, threshold float64) (reference []int, flagged []bool) {
	reference, flagged = make([]int, len(points)), make([]bool, len(points))
	best := -1
	for i, p := range points {
		reference[i] = best
		flagged[i] = best >= 0 && points[best].mfu*threshold > p.mfu
		if best < 0 || p.mfu > points[best].mfu {
			best = i
		}
	}
	return reference, flagged
}

// ArticleRules are the rules that the article's method supports.
func ArticleRules() []Rule { return []Rule{Monotonic, SplitRule} }
