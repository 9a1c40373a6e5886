package rules

import (
	"math"
)

// familyShare is the part of the false discovery rate that pays for the bounds
// that all tests of a rule lean on (the reference, the prices of parts): they
// hold together with probability 1 − familyShare·FDR, and Benjamini–Hochberg
// gets the rest.
const familyShare = 0.2

// windowSizes are the numbers of neighbouring rows whose mean may serve as a
// reference. The largest MFU among rows is at least their mean, so a bound for
// the mean is one for the largest; and the mean of 16 medians is known four times
// better than one of them, which more than pays for the larger number of tests
// wherever the curve has a plateau. A fast row that stands alone is still seen
// through the window of one.
var windowSizes = [...]int{1, 4, 16}

// windowsPerRow is how many windows a row adds to the family of references.
const windowsPerRow = 1 + 1.0/4 + 1.0/16

// reference is the expectation that smaller M set for a row, in logs of rate.
type reference struct {
	// low is a lower bound that holds for all references of the run at once; mid
	// is the estimate less the bias that choosing the largest brings.
	low, mid float64
	// point is the row in the best window that is best itself, -1 for none; window
	// is all points of it.
	point  int
	window []int
}

// references returns, for every point, the reference among points with strictly
// smaller M that have enough samples. rate is a point's log rate with its error.
// family is the number of windows in the whole run, error the probability with
// which any bound may fail.
func references(points []point, least int, rate func(point) estimate, family, error float64, q quantiles) []reference {
	out := make([]reference, len(points))
	best := reference{low: math.Inf(-1), mid: math.Inf(-1), point: -1}
	var usable []int // points that have enough samples, so far
	rates := make([]estimate, len(points))
	for i, p := range points {
		out[i] = best
		rates[i] = rate(p)
		if !p.judged(least) {
			continue
		}
		usable = append(usable, i)
		for _, w := range windowSizes {
			if len(usable)%w != 0 {
				continue
			}
			var sum, variance, df float64
			for _, j := range usable[len(usable)-w:] {
				sum += rates[j].y
				variance += rates[j].se * rates[j].se
				df += rates[j].df
			}
			mean, se := sum/float64(w), math.Sqrt(variance)/float64(w)
			if low := mean - q.upper(error/family, df)*se; low > best.low {
				best.low, best.window = low, usable[len(usable)-w:]
				top := math.Inf(-1)
				for _, j := range usable[len(usable)-w:] {
					if v := rates[j].y - rates[j].se; v > top {
						top, best.point = v, j
					}
				}
			}
			// At one half instead of error the bound is the median-unbiased
			// estimate of the largest of that many equal rows.
			best.mid = math.Max(best.mid, mean-q.upper(0.5/family, df)*se)
		}
	}
	return out
}
