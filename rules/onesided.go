package rules

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// Location says which number stands for the samples of a row, of its reference and of a sentinel.
type Location string

const (
	// LocationCentre is the [pseudoMedian], for noise that errs up as often as down.
	LocationCentre Location = "centre"
	// LocationLow is the 20th percentile, for noise that only delays: a floor that holds, and
	// delays on top. Delays vary from run to run, the floor does not.
	LocationLow Location = "20th percentile"
)

const (
	// lowShare is the percentile of [LocationLow]. On a virtual machine of two cores a third to
	// a half of all samples is delayed. Two runs of 230 cases there differ by 1.6 % in the median
	// case and by 4.0 % in one of ten at the 20th percentile; at the 10th by 1.6 % and 4.5 %, since
	// fewer samples tell where it lies, at the 30th by 1.7 % and 4.2 %, and at the centre by 3.0 %
	// and 10.6 %.
	lowShare = 0.2
	// skewZ is the standard normal quantile of the test on one-sided scatter: level 0.1 %.
	skewZ = 3.09
	// skewLeast is the least medcouple that counts however many samples there are. Exponential delays
	// without other noise have 0.33, normal and Student's noise 0.
	skewLeast = 0.2
	// skewScatter is the least distance from the median to the 80th percentile of the residuals, as a
	// share of the time, at which the location matters: quieter machines keep the centre, which
	// is known better.
	skewScatter = 0.01
	// skewGrid is at how many quantiles on each side the medcouple is taken.
	skewGrid = 301
	// lowDF is the degrees of freedom, per sample after the first, of the standard error of a
	// low quantile, which rests on the few samples around it: the logs of the variances of rows of 7 to 35
	// samples spread so. Their mean is up to 2.7 times the true variance, that of their logs 0.96 to 1.4 times
	// it, so rows are pooled in logs.
	lowDF = 0.2
	// lowPaceBlocks is [paceBlocks] for the low quantile: eight blocks lie below it.
	lowPaceBlocks = 40
)

// Scatter is how the samples of a device scatter within their rows, and what follows from it.
type Scatter struct {
	Location Location `json:"location"`
	// Medcouple is the skewness of the residuals, from -1 to 1; above Limit scatter is one-sided.
	Medcouple float64 `json:"medcouple"`
	Limit     float64 `json:"limit"`
}

// low says whether locations are low quantiles.
func (s Scatter) low() bool { return s.Location == LocationLow }

// tellScatter tests whether scatter is one-sided. residuals are those of all rows from the median of
// each, in logs; their order is spoilt. The medcouple is a robust skewness: strays don't move it. Its
// standard error for symmetric noise is √(1.25/n).
func tellScatter(residuals []float64) Scatter {
	s := Scatter{Location: LocationCentre}
	n := len(residuals)
	if n < 2*poolRows {
		return s
	}
	slices.Sort(residuals)
	s.Medcouple, s.Limit = medcouple(residuals), math.Max(skewLeast, skewZ*math.Sqrt(1.25/float64(n)))
	if s.Medcouple > s.Limit && residuals[n-1-n/5]-middleOf(residuals) > skewScatter {
		s.Location = LocationLow
	}
	return s
}

// medcouple is the median of ((b−m) − (m−a)) ÷ (b−a) over values a below and b above the median m, of
// sorted values (Brys, Hubert and Struyf). Of many values a grid of quantiles stands for each side.
func medcouple(sorted []float64) float64 {
	n, m := len(sorted), middleOf(sorted)
	side := func(v []float64) (out []float64) {
		step := max(1, len(v)/skewGrid)
		for i := step / 2; i < len(v); i += step {
			out = append(out, math.Abs(v[i]-m))
		}
		return out
	}
	below, above := side(sorted[:n/2]), side(sorted[n-n/2:])
	values := make([]float64, 0, len(below)*len(above))
	for _, a := range below {
		for _, b := range above {
			if a+b > 0 {
				values = append(values, (b-a)/(b+a))
			}
		}
	}
	return spoiledMedian(values)
}

// residuals appends what rows with enough samples deviate by from their medians. The median of an odd
// number of samples deviates by nothing and is left out.
func residuals(rows []track) []float64 {
	var out []float64
	for _, r := range rows {
		if len(r.y) < 5 {
			continue
		}
		m := median(r.y)
		for _, v := range r.y {
			if v != m {
				out = append(out, v-m)
			}
		}
	}
	return out
}

// lowWeights are the weights of ascending order statistics in Harrell and Davis' estimate of a
// quantile, by the number of samples.
type lowWeights map[int][]float64

func (w lowWeights) of(n int) []float64 {
	if v := w[n]; v != nil {
		return v
	}
	a, b := lowShare*float64(n+1), (1-lowShare)*float64(n+1)
	v, before := make([]float64, n), 0.0
	for i := range v {
		upTo := mathext.RegIncBeta(a, b, float64(i+1)/float64(n))
		v[i], before = upTo-before, upTo
	}
	w[n] = v
	return v
}

// at is the low quantile of sorted values with its standard error: the spread of the order statistics
// by their weights (Maritz and Jarrett).
func (w lowWeights) at(sorted []float64) (y, se float64) {
	if len(sorted) == 0 {
		return 0, 0
	}
	weights := w.of(len(sorted))
	for i, v := range sorted {
		y += weights[i] * v
	}
	for i, v := range sorted {
		se += weights[i] * (v - y) * (v - y)
	}
	return y, math.Sqrt(se)
}

// unsorted is at of values whose order stays. scratch is reused.
func (w lowWeights) unsorted(v, scratch []float64) (y, se float64, _ []float64) {
	scratch = append(scratch[:0], v...)
	slices.Sort(scratch)
	y, se = w.at(scratch)
	return y, se, scratch
}

// locate puts the low quantiles of a curve's rows into their estimates, and into their folds where
// folded. Standard errors of neighbours are pooled as [pool] does; one that stands in a target is that
// of adjustments, and adds.
func locate(points []point, y func(int) []float64, folded bool, target func(*point) *estimate) {
	w := lowWeights{}
	unit := make([]float64, len(points)) // variance of the location of one sample
	var scratch, rest []float64
	for i := range points {
		v := y(i)
		e := target(&points[i])
		var se float64
		e.y, se, scratch = w.unsorted(v, scratch)
		unit[i] = math.Max(se*se*float64(len(v)), scaleFloor*scaleFloor)
		if !folded || len(v) < folds {
			continue
		}
		p := &points[i]
		p.folded = true
		n := float64(len(v))
		for k := range folds {
			rest = rest[:0]
			for j, s := range v {
				if j%folds != k {
					rest = append(rest, s)
				}
			}
			slices.Sort(rest)
			p.without[k], _ = w.at(rest)
			// A fold's few samples have a quantile that lies too high. What they add to that of the
			// others is their own, without that bias (a jackknife's pseudo-value).
			left := float64(len(rest))
			p.of[k] = (n*e.y - left*p.without[k]) / (n - left)
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
			prior = priorDF(logs, lowDF*(samples/rows-1))
		}
		for i := from; i < to; i++ {
			n := float64(len(y(i)))
			e := target(&points[i])
			d := lowDF * (n - 1)
			variance := common
			if d > 0 {
				variance = (prior*common + d*math.Log(unit[i])) / (prior + d)
			}
			e.se = math.Hypot(e.se, math.Exp(variance/2)/math.Sqrt(n))
			if rows == 0 {
				e.se = 0 // one sample a row: nothing is known of the noise
			}
			e.df = math.Max(1, math.Min(prior+d, tailIndex*(n+1)))
		}
		if to == len(points) {
			break
		}
	}
}
