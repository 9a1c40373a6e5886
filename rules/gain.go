package rules

import (
	"math"
)

// Gain is direct ÷ remedy of times that were sampled in pairs, one of each a round, with
// the 95 % interval of the signed-rank test: bounds on the centre of the pairs' log
// ratios, which supposes nothing of the noise but that it is symmetric (Hollander, Wolfe
// and Chicken, "Nonparametric Statistical Methods", 3rd edition, 3.2 and 3.3). With less
// than six pairs there is no such interval: the bounds are 0 and infinity.
func Gain(direct, remedy []float64) Interval {
	n := min(len(direct), len(remedy))
	if n == 0 {
		return Interval{0, math.NaN(), math.Inf(1)}
	}
	logs := make([]float64, n)
	for i := range logs {
		logs[i] = math.Log(direct[i] / remedy[i])
	}
	gain := walshInterval(logs, 0.95).exp()
	if n < LeastPairs {
		gain.Lo, gain.Hi = 0, math.Inf(1)
	}
	return gain
}

// LeastPairs is the smallest number whose signed ranks can differ from chance at 5 %,
// two-sided: 2 ÷ 2⁶ is 3 %.
const LeastPairs = 6

// Centre is the centre of samples of one positive quantity, times or rates, with bounds
// as [Gain] has them.
func Centre(samples []float64) Interval {
	ones := make([]float64, len(samples))
	for i := range ones {
		ones[i] = 1
	}
	return Gain(samples, ones)
}
