package infer

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Location is the estimator for the samples of a row, its reference and a sentinel.
type Location string

const (
	// LocationCentre is the [stats.PseudoMedian], for symmetric noise.
	LocationCentre Location = "centre"
	// LocationLow is the 20th percentile, for noise that only delays: a stable floor plus delays that vary
	// from run to run.
	LocationLow Location = "20th percentile"
)

const (
	// skewZ is the standard normal quantile of the test on one-sided scatter: level 0.1 %.
	skewZ = 3.09
	// skewLeast is the least medcouple that counts, however many samples there are. Exponential delays
	// without other noise have 0.33, normal and Student's noise 0.
	skewLeast = 0.2
	// skewScatter is the least distance from the median to the 80th percentile of the residuals, as a share
	// of the time, for using the low quantile. Quieter machines keep the center, which is more precise.
	skewScatter = 0.01
	// LowDF is the degrees of freedom, per sample after the first, of a low quantile's standard error, which
	// rests on the few samples around it. It matches the spread of log variances of rows of 7 to 35 samples.
	// Their mean variance is up to 2.7 times the true one, the mean of the logs 0.96 to 1.4 times, so rows
	// are pooled in logs.
	LowDF = 0.2
	// lowPaceBlocks is [paceBlocks] for the low quantile: eight blocks lie below it.
	lowPaceBlocks = 40
)

// Scatter is how the samples of a device scatter within their rows, and the location that follows from it.
type Scatter struct {
	Location Location `json:"location"`
	// Medcouple is the skewness of the residuals, from -1 to 1; above Limit scatter is one-sided.
	Medcouple float64 `json:"medcouple"`
	Limit     float64 `json:"limit"`
}

// Low reports whether times are low quantiles, because noise only delays.
func (s Scatter) Low() bool { return s.Location == LocationLow }

// tellScatter tests whether scatter is one-sided. residuals are log deviations from each row's median; their
// order changes. The medcouple is a skewness that is robust against outliers. Its standard error for
// symmetric noise is √(1.25/n).
func tellScatter(residuals []float64) Scatter {
	s := Scatter{Location: LocationCentre}
	n := len(residuals)
	if n < 2*poolRows {
		return s
	}
	slices.Sort(residuals)
	s.Medcouple, s.Limit = stats.Medcouple(residuals), math.Max(skewLeast, skewZ*math.Sqrt(1.25/float64(n)))
	if s.Medcouple > s.Limit && residuals[n-1-n/5]-stats.MedianOfSorted(residuals) > skewScatter {
		s.Location = LocationLow
	}
	return s
}

// residuals appends the deviations from the medians of rows with enough samples. It omits the median sample
// of an odd number, whose deviation is 0.
func residuals(rows []track) []float64 {
	var out []float64
	for _, r := range rows {
		if len(r.y) < 5 {
			continue
		}
		m := stats.Median(r.y)
		for _, v := range r.y {
			if v != m {
				out = append(out, v-m)
			}
		}
	}
	return out
}

// locate sets the estimates of a curve's rows to their low quantiles, and the folds too if folded. It pools
// standard errors of neighbors as pool does; an error already in a target is the adjustments', and adds.
func locate(points []Point, y func(int) []float64, folded bool, target func(*Point) *stats.Estimate) {
	w := stats.LowQuantile{}
	unit := make([]float64, len(points)) // variance of the location of one sample
	var scratch, rest []float64
	for i := range points {
		v := y(i)
		e := target(&points[i])
		var se float64
		e.Y, se, scratch = w.Unsorted(v, scratch)
		unit[i] = math.Max(se*se*float64(len(v)), ScaleFloor*ScaleFloor)
		if !folded || len(v) < stats.Folds {
			continue
		}
		p := &points[i]
		p.Folded = true
		n := float64(len(v))
		for k := range stats.Folds {
			rest = rest[:0]
			for j, s := range v {
				if j%stats.Folds != k {
					rest = append(rest, s)
				}
			}
			slices.Sort(rest)
			p.Without[k], _ = w.At(rest)
			// The low quantile of a fold's few samples is biased upwards. A jackknife's pseudo-value removes
			// the bias.
			left := float64(len(rest))
			p.Of[k] = (n*e.Y - left*p.Without[k]) / (n - left)
		}
	}
	for from := 0; from < len(points); from += poolRows {
		to := min(from+poolRows, len(points))
		if to < len(points) && len(points)-to < poolRows/2 {
			to = len(points)
		}
		var common, samples, rows float64
		var logs []float64
		for i := from; i < to; i++ {
			if n := float64(len(y(i))); n >= 3 {
				logs = append(logs, math.Log(unit[i]))
				common, samples, rows = common+math.Log(unit[i]), samples+n, rows+1
			}
		}
		common /= math.Max(rows, 1)
		prior := 0.0
		if rows > 0 {
			prior = stats.PriorDF(logs, LowDF*(samples/rows-1))
		}
		for i := from; i < to; i++ {
			n := float64(len(y(i)))
			e := target(&points[i])
			d := LowDF * (n - 1)
			variance := common
			if d > 0 {
				variance = (prior*common + d*math.Log(unit[i])) / (prior + d)
			}
			e.SE = math.Hypot(e.SE, math.Exp(variance/2)/math.Sqrt(n))
			if rows == 0 {
				e.SE = 0 // one sample per row: the noise is unknown
			}
			e.DF = math.Max(1, math.Min(prior+d, tailIndex*(n+1)))
		}
		if to == len(points) {
			break
		}
	}
}

const (
	// floorScale is the least ratio of a row's scatter to its curve's for checking the row for delays.
	// floorSkew is the least medcouple of such rows that counts as delayed. Few samples give an imprecise
	// medcouple, so the limit is a third of the 0.33 of exponential delays.
	floorScale, floorSkew = 3, 0.1
	// floorDF is the degrees of freedom of one row's own low quantile.
	floorDF = 3
)

// tellFloors finds the low quantiles of rows that scatter much more than their curve's others, if they
// scatter to one side: delays raise their centers above the floor, unlike the other rows'. scales are the
// rows' own standard deviations.
func tellFloors(points []Point, scales []float64, y func(int) []float64) {
	least := math.Max(skewScatter, floorScale*math.Max(stats.Median(scales), ScaleFloor))
	var rows []track
	for i := range points {
		if scales[i] > least {
			rows = append(rows, track{y: y(i)})
		}
	}
	rest := residuals(rows)
	if len(rest) == 0 {
		return
	}
	slices.Sort(rest)
	if stats.Medcouple(rest) < floorSkew {
		return
	}
	w, scratch := stats.LowQuantile{}, []float64(nil)
	for i := range points {
		if v := y(i); scales[i] > least && len(v) >= 5 {
			e := stats.Estimate{DF: floorDF}
			e.Y, e.SE, scratch = w.Unsorted(v, scratch)
			points[i].Floor = &e
		}
	}
}

// LowPrior is the weight, in degrees of freedom, of the trials' common variance against a trial's own, which
// rests on the few samples around a low quantile.
const LowPrior = 8
