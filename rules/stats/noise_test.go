package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestDifferentHoldsItsLevelAndSeesShifts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	times := func(n int, mean float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = mean * math.Exp(0.02*rng.NormFloat64())
		}
		return out
	}
	const trials = 2000
	same, shifted := 0, 0
	for range trials {
		a := times(12, 100)
		if Different(a, times(12, 100)) {
			same++
		}
		if Different(a, times(12, 105)) {
			shifted++
		}
	}
	// Five standard deviations above the level, and near-certain detection of a 5 % shift under 2 % noise.
	if rate := float64(same) / trials; rate > NoiseLevel+5*math.Sqrt(NoiseLevel*(1-NoiseLevel)/trials) {
		t.Errorf("equal pairs were called different at a rate of %.3f, the level is %.2f", rate, NoiseLevel)
	}
	if rate := float64(shifted) / trials; rate < 0.95 {
		t.Errorf("a shift of 5 %% was seen in %.3f of the pairs", rate)
	}
	if Different(nil, []float64{1}) {
		t.Error("nothing was called different from something")
	}
}

func TestRateInterval(t *testing.T) {
	// Reference values: Clopper and Pearson, 95 %.
	for _, c := range []struct {
		hits, n int
		lo, hi  float64
	}{{0, 10, 0, 0.3085}, {1, 10, 0.0025, 0.4450}, {5, 10, 0.1871, 0.8129}, {10, 10, 0.6915, 1}, {3, 0, 0, 1}} {
		r := RateInterval(c.hits, c.n)
		if math.Abs(r.Lo-c.lo) > 1e-4 || math.Abs(r.Hi-c.hi) > 1e-4 {
			t.Errorf("%d of %d: got %.4f to %.4f, expected %.4f to %.4f", c.hits, c.n, r.Lo, r.Hi, c.lo, c.hi)
		}
	}
}
