package kerneltest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// MinRounds is the least number of samples of a [Series] that [MeasureRounds]
// takes: enough for an interval of more than 95 %.
const MinRounds = 15

// Series is something that a benchmark measures once every round: Sample yields a
// rate or a time, in the unit of the benchmark's choice.
type Series struct {
	Name    string
	Sample  func() (float64, error)
	Samples []float64
}

// MeasureRounds takes the samples of all series, one of each a round, in an order
// that is drawn anew every round. b counts rounds; there are at least [MinRounds].
func MeasureRounds(b *testing.B, all []*Series) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	round := func() {
		for _, i := range rng.Perm(len(all)) {
			v, err := all[i].Sample()
			if err != nil {
				b.Fatalf("%s: %v", all[i].Name, err)
			}
			all[i].Samples = append(all[i].Samples, v)
		}
	}
	rounds := 0
	for b.Loop() {
		round()
		rounds++
	}
	for ; rounds < MinRounds; rounds++ {
		round()
	}
}

// Median is the middle of x, or the mean of the two middle ones; 0 of nothing.
func Median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Interval is a median with the order statistics that enclose the true one with a
// probability of at least 95 %, as far as there are enough samples for that.
func Interval(x []float64) (mid, low, high float64) {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	// The number of samples below the median is binomial.
	tail, p := 0.0, math.Pow(0.5, float64(n))
	i := 0
	for ; i < n/2; i++ {
		if tail+p > 0.025 {
			break
		}
		tail += p
		p *= float64(n-i) / float64(i+1)
	}
	i = max(i-1, 0)
	return Median(x), s[i], s[n-1-i]
}

// Ratios divides sample by sample, so that what moves a whole round falls out.
func Ratios(a, b *Series) []float64 {
	out := make([]float64, len(a.Samples))
	for i := range out {
		out[i] = a.Samples[i] / b.Samples[i]
	}
	return out
}
