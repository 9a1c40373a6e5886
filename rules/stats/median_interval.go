package stats

import (
	"math"
	"slices"
)

// MedianInterval returns the median of samples, which must not be empty, and its 95 % confidence bounds, if there are
// enough samples.
func MedianInterval(samples []float64) (mid, low, high float64) {
	s := slices.Sorted(slices.Values(samples))
	n := len(s)
	// The number of samples below the median is binomial.
	tail, p := 0.0, math.Pow(0.5, float64(n))
	i := 0
	for ; i < n/2 && tail+p <= 0.025; i++ {
		tail += p
		p *= float64(n-i) / float64(i+1)
	}
	i = max(i-1, 0)
	return MedianOfSorted(s), s[i], s[n-1-i]
}
