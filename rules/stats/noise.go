package stats

import (
	"golang.org/x/perf/benchmath"
	"gonum.org/v1/gonum/mathext"
)

// NoiseLevel is the level of the test that counts false flags in an A/A measurement: on a quiet machine about
// this share of pairs differs by chance.
const NoiseLevel = 0.05

// Different reports whether two samples of times differ at [NoiseLevel]. It uses the Mann–Whitney test, which
// assumes no noise distribution, as benchstat does. It needs at least four samples on each side.
func Different(a, b []float64) bool {
	thresholds := benchmath.DefaultThresholds
	thresholds.CompareAlpha = NoiseLevel
	c := benchmath.AssumeNothing.Compare(benchmath.NewSample(a, &thresholds), benchmath.NewSample(b, &thresholds))
	return c.P < NoiseLevel
}

// RateInterval is the share of hits among trials with the 95 % interval of
// Clopper and Pearson, which is never too narrow.
func RateInterval(hits, trials int) Interval {
	if trials < 1 || hits < 0 || hits > trials {
		return Interval{0, 0, 1}
	}
	h, n := float64(hits), float64(trials)
	r := Interval{0, h / n, 1}
	if hits > 0 {
		r.Lo = mathext.InvRegIncBeta(h, n-h+1, 0.025)
	}
	if hits < trials {
		r.Hi = mathext.InvRegIncBeta(h+1, n-h, 0.975)
	}
	return r
}
