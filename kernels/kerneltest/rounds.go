// Package kerneltest checks devices in their tests: copies, choices and decoder operations against references, and rounds of
// a benchmark. Simulated devices are in package simulated.
package kerneltest

import (
	"math/rand/v2"
	"testing"
)

// MinRounds is the least number of samples of a [Series]: enough for an interval of more than 95 %.
const MinRounds = 15

// Series is a quantity that a benchmark samples once per round: a rate or a time, in any unit.
type Series struct {
	Name    string
	Sample  func() (float64, error)
	Samples []float64
}

// MeasureRounds takes one sample of each series per round, in random order. b counts rounds; there are at
// least [MinRounds].
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

// Ratios divides sample by sample, so effects on a whole round cancel.
func Ratios(a, b *Series) []float64 {
	out := make([]float64, len(a.Samples))
	for i := range out {
		out[i] = a.Samples[i] / b.Samples[i]
	}
	return out
}
