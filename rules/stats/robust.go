package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Factors of robust estimates for normal noise.
const (
	// ShamosFactor turns the median of absolute pairwise differences into the standard deviation of normal
	// data: 1/(√2·Φ⁻¹(3/4)). Differences need no center, so the scale of a row of five samples is not biased
	// low, as it is with deviations from its own median.
	ShamosFactor = 1.0483
	// PairLags is the largest distance, in a row's order, of two samples that form a difference: 4·n pairs
	// per row carry nearly as much information as n²/2.
	PairLags = 4
	// MedianFactor is the standard error of a plain median in units of σ/√n for normal noise, √(π/2); with
	// heavier tails it is smaller.
	MedianFactor = 1.2533
	// CentreFactor is the same for [PseudoMedian], √(π/3).
	CentreFactor = 1.0233
	// MADFactor turns the median of absolute deviations into the standard deviation of normal data.
	MADFactor = 1.4826
	// priorMax caps the weight, in degrees of freedom, of the neighbors' noise against a row's own: a bimodal
	// row keeps part of its own scatter.
	priorMax = 24
)

// widest limits the exponents of printed values, so an unknown estimate prints as a huge number, not
// infinity.
const widest = 600

// Exp is exp limited to printable values.
func Exp(x float64) float64 { return math.Exp(math.Max(-widest, math.Min(widest, x))) }

// Lost is the share of time lost by a row whose log time should change by x, which is negative: 1 − exp(x).
func Lost(x float64) float64 { return -math.Expm1(math.Max(-widest, math.Min(widest, x))) }

// Median leaves the order of v as it is; 0 for an empty list.
func Median(v []float64) float64 {
	switch len(v) {
	case 0:
		return 0
	case 1:
		return v[0]
	case 2:
		return (v[0] + v[1]) / 2
	}
	var small [32]float64
	s := append(small[:0], v...)
	slices.Sort(s)
	return MedianOfSorted(s)
}

// MedianOfSorted is the median of ascending values, of which there is at least one.
func MedianOfSorted(sorted []float64) float64 {
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// MedianInPlace is the median of v in linear time; it changes the order.
func MedianInPlace(v []float64) float64 {
	n := len(v)
	upper := UpperMedianInPlace(v)
	if n == 0 || n%2 == 1 {
		return upper
	}
	// UpperMedianInPlace moves all larger values behind the middle.
	return (slices.Max(v[:n/2]) + upper) / 2
}

// PseudoMedian is the center of a row's samples: the median of the means of all pairs, including each sample
// with itself (Hodges and Lehmann). It is as robust as a median, up to three outliers in ten samples, and
// nearly as precise as a mean. It is also the estimate that belongs to the signed-rank test for confirming
// suspects. scratch is reused.
func PseudoMedian(y, scratch []float64) (float64, []float64) {
	scratch = scratch[:0]
	for i := range y {
		for j := i; j < len(y); j++ {
			scratch = append(scratch, (y[i]+y[j])/2)
		}
	}
	return MedianInPlace(scratch), scratch
}

// PairedSamples is the largest number of samples that are paired in full.
const PairedSamples = 36

// Centre is the center of a row's samples: the [PseudoMedian], or for very many samples the mean of their
// middle half, which is robust too. scratch is reused.
func Centre(y, scratch []float64) (float64, []float64) {
	if len(y) <= PairedSamples {
		return PseudoMedian(y, scratch)
	}
	scratch = append(scratch[:0], y...)
	slices.Sort(scratch)
	return MidMean(scratch), scratch
}

// MidMean is the mean of the middle half of ascending values.
func MidMean(sorted []float64) float64 {
	n := len(sorted)
	return Mean(sorted[n/4 : n-n/4])
}

// MergeSorted appends the values of two ascending lists to out in ascending order.
func MergeSorted(out, a, b []float64) []float64 {
	for len(a) > 0 && len(b) > 0 {
		if a[0] <= b[0] {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// UpperMedianInPlace is the upper median of v in linear time; it changes the order.
func UpperMedianInPlace(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	k := len(v) / 2
	lo, hi := 0, len(v)-1
	for lo < hi {
		pivot := v[lo+(hi-lo)/2]
		i, j := lo, hi
		for i <= j {
			for v[i] < pivot {
				i++
			}
			for v[j] > pivot {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return v[k]
		}
	}
	return v[k]
}

// AppendDifferences adds the absolute differences of samples at most PairLags apart; the row is treated as a
// ring.
func AppendDifferences(out, y []float64) []float64 {
	n := len(y)
	for lag := 1; lag <= min(PairLags, n/2); lag++ {
		for i := range n {
			if lag*2 == n && i >= lag {
				break // each such pair once
			}
			out = append(out, math.Abs(y[i]-y[(i+lag)%n]))
		}
	}
	return out
}

// Scale is the standard deviation of v from the median of absolute deviations from its median.
func Scale(v []float64) float64 {
	m := Median(v)
	d := make([]float64, len(v))
	for i, x := range v {
		d[i] = math.Abs(x - m)
	}
	return MADFactor * Median(d)
}

// UpperP is P(T > t) for Student's t.
func UpperP(t, df float64) float64 {
	switch {
	case math.IsNaN(t):
		return 1
	case math.IsInf(t, 1):
		return 0
	case math.IsInf(t, -1):
		return 1
	}
	if t < 0 {
		return 1 - UpperP(-t, df)
	}
	return student(df).Survival(t)
}

func student(df float64) distuv.StudentsT { return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df} }

// UpperT is the value that Student's t exceeds with probability p.
func UpperT(p, df float64) float64 { return -student(df).Quantile(p) }

// Quantile interpolates between the order statistics of ascending values; 0 for an empty list.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// Quantiles caches Student's quantiles, which are costly, at degrees of freedom rounded down to halves.
type Quantiles map[[2]float64]float64

// Upper is the t that is exceeded with probability p.
func (q Quantiles) Upper(p, df float64) float64 {
	df = math.Max(math.Floor(df*2)/2, 1)
	key := [2]float64{p, df}
	if t, ok := q[key]; ok {
		return t
	}
	t := UpperT(p, df)
	q[key] = t
	return t
}

// AdjustP adjusts the p-values of one family: rejecting those at most q keeps the false discovery
// rate at q.
func AdjustP(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return a - b
	})
	adjusted := make([]float64, len(p))
	least := 1.0
	for rank := len(order) - 1; rank >= 0; rank-- {
		i := order[rank]
		least = min(least, p[i]*float64(len(p))/float64(rank+1))
		adjusted[i] = least
	}
	return adjusted
}

// Mean is the arithmetic mean; 0 for an empty list.
func Mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / math.Max(float64(len(v)), 1)
}

// BinomialTail is the binomial probability of hits or more of n, each of probability p.
func BinomialTail(hits, n int, p float64) float64 {
	if hits <= 0 {
		return 1
	}
	return mathext.RegIncBeta(float64(hits), float64(n-hits+1), p)
}
