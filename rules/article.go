package rules

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// articlePoint is a row as the plain rule sees it: one number.
type articlePoint struct {
	row  int // index into the series
	m    int
	us   float64
	rate float64 // FLOP per microsecond
	mfu  float64 // as published, else rate relative to [articlePeak]
}

// articlePoints takes the median of each row of a series. MFU is what the
// measurement was published with, where it was: the published counts follow from
// those digits. Without a peak, a row that lacks it can't be compared with one that
// has it, and all rows are held by their rates.
func articlePoints(s results.Series) []articlePoint {
	points := make([]articlePoint, 0, len(s.Rows))
	published := make([]float64, 0, len(s.Rows))
	for i, r := range s.Rows {
		if us, ok := rowMedian(r); ok {
			points = append(points, articlePoint{row: i, m: r.Case.M, us: us, rate: r.Case.FLOPs() / us})
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

// articlePeak is what a rate is relative to, in FLOP per microsecond: the peak of
// the series, else its fastest row.
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

// publishedMFU is the median of the MFUs that a row was published with, 0 when one
// of its samples has none.
func publishedMFU(r results.Row) float64 {
	values := make([]float64, 0, len(r.Samples))
	for _, s := range r.Samples {
		if !usable(&s) {
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
	return median(values)
}

// articleFlag is the published rule: a row is flagged when the largest MFU
// among strictly smaller M, times the threshold, is above its own. It returns
// for each point the position of that reference, or -1, and whether the point
// is flagged. Of equal MFUs the smallest M is the reference.
func articleFlag(points []articlePoint, threshold float64) (reference []int, flagged []bool) {
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

// ArticleRules are the rules that the article's method has.
func ArticleRules() []Rule { return []Rule{Monotonic, SplitRule} }
