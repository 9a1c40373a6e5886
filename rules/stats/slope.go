package stats

import (
	"cmp"
	"math"
	"slices"
)

// TheilSen is the robust slope of y over −x (Theil–Sen): the median of the slopes of pairs of samples, each
// weighted by its distance in x. spread is the sum of squares of x about its mean, which the slope's error
// depends on. ok is false if x does not vary. pairs is scratch space.
func TheilSen(y, x []float64, pairs *[]SlopePair) (beta, spread float64, ok bool) {
	n := len(x)
	mean := 0.0
	for _, v := range x {
		mean += v / float64(n)
	}
	for _, v := range x {
		spread += (v - mean) * (v - mean)
	}
	if n < 3 || spread < 1e-9 {
		return 0, 0, false
	}
	of := (*pairs)[:0]
	total := 0.0
	for lag := 1; lag < n && len(of) < slopePairs; lag++ {
		for i := 0; i+lag < n; i++ {
			dx := x[i+lag] - x[i]
			if w := math.Abs(dx); w > 1e-9 {
				of = append(of, SlopePair{-(y[i+lag] - y[i]) / dx, w})
				total += w
			}
		}
	}
	*pairs = of
	slices.SortFunc(of, func(a, b SlopePair) int { return cmp.Compare(a.slope, b.slope) })
	half := 0.0
	for _, p := range of {
		if half += p.weight; half >= total/2 {
			return p.slope, spread, true
		}
	}
	return 0, 0, false
}

// SlopePair is the slope between two samples with its weight.
type SlopePair struct{ slope, weight float64 }

// slopePairs is the number of pairs of samples beyond which no larger distances are added.
const slopePairs = 300
