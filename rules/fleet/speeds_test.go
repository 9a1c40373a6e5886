package fleet

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Cards at one speed, with noise, outliers and two levels between samples, and cards that change speed.
func TestSpeeds(t *testing.T) {
	const n = 540
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name           string
		off            func(i int) float64
		faster, slower float64
		within         float64
	}{
		{"scatter of 3 %", func(int) float64 { return 0.03 * r.NormFloat64() }, 0, 0, 0.003},
		{"two levels", func(int) float64 { return 0.1 * math.Round(r.Float64()) }, 0, 0, 0.01},
		{"strays", func(i int) float64 { return 0.003*r.NormFloat64() + float64(i%50/49) }, 0, 0, 0.003},
		{"slower for a third", func(i int) float64 { return 0.004*r.NormFloat64() + 0.12*math.Floor(float64(i)/(2*n/3)) }, 0.04, 0.08,
			0.006},
		{"a third at a time", func(i int) float64 { return 0.004*r.NormFloat64() + 0.1*float64(i/(n/3)) }, 0.1, 0.1, 0.006},
	} {
		samples := make([]moment, n)
		for i := range samples {
			samples[n-1-i] = moment{int64(i), 0.5 + c.off(i)}
		}
		s := speedsOf(samples)
		if math.Abs(s.faster-c.faster) > c.within || math.Abs(s.slower-c.slower) > c.within {
			t.Errorf("%s: faster by %.4f and slower by %.4f, expected %g and %g", c.name, s.faster, s.slower, c.faster, c.slower)
		}
		if got := speedsOf(samples[:speedLeast-1]); got != (speeds{}) {
			t.Errorf("%s: %d samples tell %+v", c.name, speedLeast-1, got)
		}
	}
}
