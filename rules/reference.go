package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// windowSizes are the numbers of neighboring rows whose mean rate can be a reference. The mean of 16 rows is
// four times more precise than one row, and never above the largest rate among them. So it is the better
// estimate if noise is large and the curve flat. A window of one shows a single fast row.
var windowSizes = [...]int{1, 4, 16}

// windowPrice is how many standard errors are subtracted from a window's rate, with the open uncertainty,
// when the best is chosen. So the more precise of similar windows wins. alonePrice applies to a window with a
// row noisier than its neighbors, which becomes a reference only if it is surely faster.
const windowPrice, alonePrice = 1, 3

// reference is the expectation that smaller M set for a row, in logs of rate.
type reference struct {
	// rate is the largest rate among smaller M, without selection bias (see [stats.Folds]).
	rate stats.Estimate
	// point is the best row of the window behind the rate, or -1, and window all its rows.
	point  int
	window []int
}

// references returns, for every point, the best rate among points with strictly
// smaller M that may serve.
func references(points []infer.Point, least int) []reference {
	out := make([]reference, len(points))
	top := stats.NewBest()
	now := reference{point: -1}
	var usable []int
	for i, p := range points {
		out[i] = now
		if !p.Serves(least) || !p.Folded {
			continue
		}
		usable = append(usable, i)
		for _, size := range windowSizes {
			if len(usable) < size || len(usable)%max(1, size/2) != 0 {
				continue
			}
			window := usable[len(usable)-size:]
			var rate, variance, df, open float64
			price := float64(windowPrice)
			var without, of [stats.Folds]float64
			for _, j := range window {
				q := points[j]
				rate += q.Rate()
				variance += q.US.SE * q.US.SE
				df, open = df+q.US.DF, open+q.US.Open
				if q.Alone {
					price = alonePrice
				}
				for k := range stats.Folds {
					without[k] += q.Flops - q.Without[k]
					of[k] += q.Flops - q.Of[k]
				}
			}
			n := float64(size)
			se := math.Sqrt(variance) / n
			for k := range stats.Folds {
				without[k], of[k] = without[k]/n-price*se-open/n, of[k]/n
			}
			if top.Add(i, rate/n-price*se-open/n, without, of) {
				now.rate, now.window, now.point = stats.Estimate{SE: se, DF: df, Open: open / n}, window, window[0]
				for _, j := range window {
					if points[j].Rate() > points[now.point].Rate() {
						now.point = j
					}
				}
			}
		}
		now.rate.Y = top.Value()
	}
	return out
}
