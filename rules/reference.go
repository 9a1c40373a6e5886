package rules

import "math"

// windowSizes are the numbers of neighbouring rows whose mean rate may serve as a
// reference. The largest rate among rows is at least their mean, and the mean of 16 rows
// is known four times better than one of them: where noise is large and the curve is
// flat, it is the better estimate. A single fast row is seen through the window of one.
var windowSizes = [...]int{1, 4, 16}

// windowPrice is how many standard errors a window's rate is lowered by when the best is
// chosen, so that of windows that are alike the better known is taken.
const windowPrice = 1

// reference is the expectation that smaller M set for a row, in logs of rate.
type reference struct {
	// rate is the largest rate among smaller M, freed of the bias that choosing the
	// largest brings (see [folds]).
	rate estimate
	// point is the best row of the window that gives it, -1 for none, and window all its rows.
	point  int
	window []int
}

// references returns, for every point, the best rate among points with strictly
// smaller M that may serve.
func references(points []point, least int) []reference {
	out := make([]reference, len(points))
	top := newBest()
	now := reference{point: -1}
	var usable []int
	for i, p := range points {
		out[i] = now
		if !p.serves(least) || !p.folded {
			continue
		}
		usable = append(usable, i)
		for _, size := range windowSizes {
			if len(usable) < size || len(usable)%max(1, size/2) != 0 {
				continue
			}
			window := usable[len(usable)-size:]
			var rate, variance, df float64
			var without, of [folds]float64
			for _, j := range window {
				q := points[j]
				rate += q.rate()
				variance += q.us.se * q.us.se
				df += q.us.df
				for k := range folds {
					without[k] += q.flops - q.without[k]
					of[k] += q.flops - q.of[k]
				}
			}
			n := float64(size)
			se := math.Sqrt(variance) / n
			for k := range folds {
				without[k], of[k] = without[k]/n-windowPrice*se, of[k]/n
			}
			if top.add(i, rate/n-windowPrice*se, without, of) {
				now.rate, now.window, now.point = estimate{se: se, df: df}, window, window[0]
				for _, j := range window {
					if points[j].rate() > points[now.point].rate() {
						now.point = j
					}
				}
			}
		}
		now.rate.y = top.estimate()
	}
	return out
}
