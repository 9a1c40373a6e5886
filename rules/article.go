package rules

import "github.com/gemmaudit/gemmaudit/results"

// articlePoint is a row as the plain rule sees it: one number.
type articlePoint struct {
	row  int // index into the series
	m    int
	us   float64
	rate float64 // FLOP per microsecond
}

// articlePoints takes the median of each row of a series. The rate stands in
// for MFU: both differ by the peak alone, which is one number for a series.
func articlePoints(s results.Series) []articlePoint {
	points := make([]articlePoint, 0, len(s.Rows))
	for i, r := range s.Rows {
		if us, ok := rowMedian(r); ok {
			points = append(points, articlePoint{i, r.Case.M, us, r.Case.Shape().FLOPs() / us})
		}
	}
	return points
}

// articleFlag is the published rule: a row is flagged when the largest rate
// among strictly smaller M, times the threshold, is above its own. It returns
// for each point the position of that reference, or -1, and whether the point
// is flagged. Of equal rates the smallest M is the reference.
func articleFlag(points []articlePoint, threshold float64) (reference []int, flagged []bool) {
	reference, flagged = make([]int, len(points)), make([]bool, len(points))
	best := -1
	for i, p := range points {
		reference[i] = best
		flagged[i] = best >= 0 && points[best].rate*threshold > p.rate
		if best < 0 || p.rate > points[best].rate {
			best = i
		}
	}
	return reference, flagged
}
