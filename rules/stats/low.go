package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// Medcouple is the median of ((b−m) − (m−a)) ÷ (b−a) over values a below and b above the median m, of sorted
// values (Brys, Hubert and Struyf). With many values each side is reduced to a grid of quantiles.
func Medcouple(sorted []float64) float64 {
	n, m := len(sorted), MedianOfSorted(sorted)
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
	return MedianInPlace(values)
}

// LowQuantile estimates the quantile LowShare by Harrell and Davis: it holds the weights of ascending order
// statistics by the number of samples.
type LowQuantile map[int][]float64

func (w LowQuantile) of(n int) []float64 {
	if v := w[n]; v != nil {
		return v
	}
	a, b := LowShare*float64(n+1), (1-LowShare)*float64(n+1)
	v, before := make([]float64, n), 0.0
	for i := range v {
		upTo := mathext.RegIncBeta(a, b, float64(i+1)/float64(n))
		v[i], before = upTo-before, upTo
	}
	w[n] = v
	return v
}

// At is the low quantile of sorted values with its standard error from the weighted spread of the order
// statistics (Maritz and Jarrett).
func (w LowQuantile) At(sorted []float64) (y, se float64) {
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

// Unsorted is At for unsorted values, whose order it keeps. scratch is reused.
func (w LowQuantile) Unsorted(v, scratch []float64) (y, se float64, _ []float64) {
	scratch = append(scratch[:0], v...)
	slices.Sort(scratch)
	y, se = w.At(scratch)
	return y, se, scratch
}

// LowShare is the quantile that estimates the floor of delayed samples. On a virtual machine of two cores a
// third to a half of all samples is delayed. Two runs of 230 cases there differ by 1.6 % in the median case
// and by 4.0 % in one of ten at the 20th percentile. At the 10th it is 1.6 % and 4.5 %, because fewer
// samples determine it, at the 30th 1.7 % and 4.2 %, and at the center 3.0 % and 10.6 %.
const LowShare = 0.2

// skewGrid is the number of quantiles on each side for the medcouple.
const skewGrid = 301
