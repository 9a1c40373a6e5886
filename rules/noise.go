package rules

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// NoiseLevel is the share of pairs of equal things that [Different] may call
// different.
const NoiseLevel = 0.05

// Different says whether two cases that were measured side by side, round by
// round, take different times: Wilcoxon's signed-rank test of their ratios at
// [NoiseLevel], two-sided. It is the test with which suspects are confirmed, so
// its rate of false flags on equal things is that of the audit. Times are in
// microseconds; what one side has more than the other is left out.
func Different(a, b []float64) bool {
	n := min(len(a), len(b))
	up, down := make([]float64, n), make([]float64, n)
	for i := range n {
		up[i] = math.Log(a[i] / b[i])
		down[i] = -up[i]
	}
	return 2*math.Min(signedRank(up, 0), signedRank(down, 0)) <= NoiseLevel
}

// RateInterval estimates a rate of which hits were seen in n trials, with the
// bounds of Clopper and Pearson at 95 %: never too narrow, also for no hits at all.
func RateInterval(hits, n int) Interval {
	if n < 1 || hits < 0 || hits > n {
		return Interval{0, 0, 1}
	}
	const tail = 0.025
	r := Interval{Lo: 0, Mid: float64(hits) / float64(n), Hi: 1}
	if hits > 0 {
		r.Lo = distuv.Beta{Alpha: float64(hits), Beta: float64(n-hits) + 1}.Quantile(tail)
	}
	if hits < n {
		r.Hi = distuv.Beta{Alpha: float64(hits) + 1, Beta: float64(n - hits)}.Quantile(1 - tail)
	}
	return r
}
