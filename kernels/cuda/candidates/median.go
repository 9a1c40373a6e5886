package candidates

import (
	"math"
	"slices"
)

// Median is the median of samples, of which there is at least one, between bounds that enclose the true one
// with a probability of 95 %, as far as there are samples enough.
func Median(samples []float64) (mid, low, high float64) {
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
	return (s[(n-1)/2] + s[n/2]) / 2, s[i], s[n-1-i]
}
