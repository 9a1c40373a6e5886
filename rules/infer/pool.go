package infer

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Constants of the noise of rows; see pool.
const (
	// ScaleFloor is the lower limit of noise, as a share of the time. Rows that repeat to the last digit were
	// rounded, not exact.
	ScaleFloor = 0.0005
	poolRows   = 32
	// aloneLevel is the p-value below which a row's own noise is larger than its neighbors' and not pooled.
	aloneLevel = 0.001
	// tailIndex limits the degrees of freedom of a row's test to tailIndex·(n+1). With noise as heavy as
	// Student's t with 3 degrees of freedom, whose scale Shamos' estimator overestimates by a tenth, upper
	// tails down to 1e-4 are then no heavier than the test assumes. A test with simulated noise checks it.
	tailIndex = 3
	// shamosDF is the degrees of freedom of a row's own scale per sample after the first; it is below 1
	// because the scale is robust and noise isn't normal.
	shamosDF = 0.6
)

// pool fills in the errors of the centers of a series' points, from their log times, and returns the rows'
// own standard deviations. An error already in a target is the adjustment's, and adds.
//
// Five to thirty samples are too few for both a median and its error. Order-statistic intervals of five
// samples don't reach 95 %, and a scale from five samples is off by a third. Rows of a series run on the same
// machine for about the same time. So the noise of a row is a weighted mean of its own and that of its
// poolRows neighbors (an empirical-Bayes variance, as used for gene expression). The weight of the pool, in
// degrees of freedom, follows from how much more the rows' scales differ than by chance. The result is
// compared with Student's t. A row whose own noise is surely larger than the pool's, at aloneLevel, uses its
// own only.
func pool(points []Point, y func(int) []float64, target func(*Point) *stats.Estimate) (scales []float64) {
	scales = make([]float64, len(points))
	own := make([]float64, len(points)) // log of a row's own variance
	var scratch, logs []float64
	for i := range points {
		scratch = stats.AppendDifferences(scratch[:0], y(i))
		scales[i] = stats.ShamosFactor * stats.UpperMedianInPlace(scratch)
		own[i] = 2 * math.Log(math.Max(scales[i], ScaleFloor/8))
	}
	for from := 0; from < len(points); from += poolRows {
		to := min(from+poolRows, len(points))
		if to < len(points) && len(points)-to < poolRows/2 {
			to = len(points) // a short tail joins its neighbors
		}
		// The pool's scale is the median over all differences of its rows.
		scratch = scratch[:0]
		var samples, rows float64
		logs = logs[:0]
		for i := from; i < to; i++ {
			v := y(i)
			scratch = stats.AppendDifferences(scratch, v)
			if len(v) >= 3 {
				logs = append(logs, own[i])
				samples += float64(len(v))
				rows++
			}
		}
		single := len(scratch) == 0 // one sample per row: the noise is unknown
		common := math.Max(stats.ShamosFactor*stats.UpperMedianInPlace(scratch), ScaleFloor)
		prior := 0.0
		if rows > 0 {
			prior = stats.PriorDF(logs, shamosDF*(samples/rows-1))
		}
		var alone struct { // the least ratio of variances at which a row of n samples is judged by its own
			n     int
			ratio float64
		}
		for i := from; i < to; i++ {
			v := y(i)
			n := float64(len(v))
			e := target(&points[i])
			d := shamosDF * (n - 1)
			variance := common * common
			weight := prior
			if d > 0 {
				if prior > 0 && alone.n != len(v) {
					alone.n, alone.ratio = len(v), (distuv.F{D1: d, D2: prior}).Quantile(1-aloneLevel)
				}
				if prior > 0 && math.Exp(own[i]) > variance*alone.ratio && twoModes(slices.Sorted(slices.Values(v)), common) == nil {
					weight, points[i].Alone = 0, true // its noise differs from its neighbors'
				}
				variance = (weight*variance + d*math.Exp(own[i])) / (weight + d)
			}
			e.SE = math.Hypot(e.SE, stats.CentreFactor*math.Max(math.Sqrt(variance), ScaleFloor)/math.Sqrt(n))
			if single {
				e.SE = 0
			}
			e.DF = math.Max(1, math.Min(weight+d, tailIndex*(n+1)))
		}
		if to == len(points) {
			break
		}
	}
	return scales
}
