package rules

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Statistical choices that hold everywhere, as named values.
const (
	// shamosFactor makes the median of absolute pairwise differences the standard
	// deviation of normal data: 1/(√2·Φ⁻¹(3/4)). Differences need no centre, so
	// rows of five samples are not biased towards small scales as they are with
	// deviations from their own median.
	shamosFactor = 1.0483
	// pairLags is how far apart, in a row's order, two samples may be to form a
	// difference: 4·n pairs a row carry nearly all that n²/2 would.
	pairLags = 4
	// medianFactor is the standard error of a plain median in units of σ/√n for
	// normal noise, √(π/2); heavier tails need less.
	medianFactor = 1.2533
	// centreFactor is the same for [pseudoMedian], √(π/3).
	centreFactor = 1.0233
	// scaleFloor is the least noise that is believed, as a share of the time.
	// Rows that repeat to the last digit were rounded, not exact.
	scaleFloor = 0.0005
	// poolRows is how many neighbours in M lend each other their noise.
	poolRows = 32
	// priorMax caps the weight, in degrees of freedom, of the neighbours' noise
	// over a row's own: a row with two modes keeps part of its own scatter.
	priorMax = 24
	// tailIndex bounds the degrees of freedom of a row's test by tailIndex·(n+1).
	// With noise as heavy as Student's t with 3 degrees of freedom, whose scale
	// Shamos' estimator puts a tenth too high, upper tails down to 1e-4 are then
	// no heavier than the test takes them to be; a test with simulated noise
	// checks it.
	tailIndex = 3
	// shamosDF is the degrees of freedom of a row's own scale per sample after
	// the first; below 1 because the scale is robust, and noise isn't normal.
	shamosDF = 0.6
)

// widest bounds the exponents of what is printed, so that an estimate of which
// nothing is known prints as a huge number and not as infinity.
const widest = 600

// expo is exp within what can be printed.
func expo(x float64) float64 { return math.Exp(math.Max(-widest, math.Min(widest, x))) }

// exp is what an interval of logarithms stands for.
func (i Interval) exp() Interval { return Interval{expo(i.Lo), expo(i.Mid), expo(i.Hi)} }

// log is the inverse of exp, for intervals of positive numbers.
func (i Interval) log() Interval { return Interval{math.Log(i.Lo), math.Log(i.Mid), math.Log(i.Hi)} }

// lost is the share of time that is lost by a row whose log-time has to fall by
// -x to be as it should: 1 − exp(x).
func lost(x float64) float64 { return -math.Expm1(math.Max(-widest, math.Min(widest, x))) }

// median is the median of v, whose order it leaves as it is; 0 for none.
func median(v []float64) float64 {
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
	return middleOf(s)
}

// middleOf is the median of sorted values, of which there are some.
func middleOf(sorted []float64) float64 {
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// spoiledMedian is the median of v, whose order it spoils, in linear time.
func spoiledMedian(v []float64) float64 {
	n := len(v)
	upper := selectMedian(v)
	if n == 0 || n%2 == 1 {
		return upper
	}
	// selectMedian leaves nothing above the middle in front of it.
	return (slices.Max(v[:n/2]) + upper) / 2
}

// pseudoMedian is the centre of a row's samples: the median of the means of all
// pairs, each sample with itself among them (Hodges and Lehmann). It stands
// strays as a median does, up to three samples in ten, at nearly the precision of
// a mean, and it is the estimate that belongs to the signed-rank test by which
// suspects are confirmed. scratch is reused.
func pseudoMedian(y, scratch []float64) (float64, []float64) {
	scratch = scratch[:0]
	for i := range y {
		for j := i; j < len(y); j++ {
			scratch = append(scratch, (y[i]+y[j])/2)
		}
	}
	return spoiledMedian(scratch), scratch
}

// pairedSamples is up to how many samples all pairs are looked at for their centre.
const pairedSamples = 36

// centre is the centre of a row's samples: the [pseudoMedian], and of very many
// samples, whose pairs are too many, the mean of their middle half, which stands
// strays as well. scratch is reused.
func centre(y, scratch []float64) (float64, []float64) {
	if len(y) <= pairedSamples {
		return pseudoMedian(y, scratch)
	}
	scratch = append(scratch[:0], y...)
	slices.Sort(scratch)
	return middleHalf(scratch), scratch
}

// middleHalf is the mean of the middle half of sorted values.
func middleHalf(sorted []float64) float64 {
	n := len(sorted)
	return meanOf(sorted[n/4 : n-n/4])
}

// merged appends two sorted lists to out, in order.
func merged(out, a, b []float64) []float64 {
	for len(a) > 0 && len(b) > 0 {
		if a[0] <= b[0] {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// selectMedian is the upper median of v, whose order it spoils: linear time for
// the large pools.
func selectMedian(v []float64) float64 {
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

// appendDifferences adds the absolute differences of samples that stand at most
// pairLags apart, the row closed to a ring.
func appendDifferences(out, y []float64) []float64 {
	n := len(y)
	for lag := 1; lag <= min(pairLags, n/2); lag++ {
		for i := range n {
			if lag*2 == n && i >= lag {
				break // each such pair once
			}
			out = append(out, math.Abs(y[i]-y[(i+lag)%n]))
		}
	}
	return out
}

// upperP is P(T > t) for Student's t.
func upperP(t, df float64) float64 {
	switch {
	case math.IsNaN(t):
		return 1
	case math.IsInf(t, 1):
		return 0
	case math.IsInf(t, -1):
		return 1
	}
	if t < 0 {
		return 1 - upperP(-t, df)
	}
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Survival(t)
}

// quantiles remembers Student's quantiles, which are dear, at degrees of
// freedom rounded down to halves.
type quantiles map[[2]float64]float64

// upper is the t that is exceeded with probability p.
func (q quantiles) upper(p, df float64) float64 {
	df = math.Max(math.Floor(df*2)/2, 1)
	key := [2]float64{p, df}
	if t, ok := q[key]; ok {
		return t
	}
	t := -distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}.Quantile(p)
	q[key] = t
	return t
}

// benjaminiHochberg adjusts the p-values of one family so that rejecting those
// at most q keeps the false discovery rate at q.
func benjaminiHochberg(p []float64) []float64 {
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
