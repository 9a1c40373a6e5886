package stats

import "math"

// Gain is direct ÷ remedy of times sampled in pairs, one pair per round, with the 95 % interval of the
// signed-rank test. The bounds are for the center of the pairs' log ratios and assume only symmetric noise
// (Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 3rd edition, 3.2 and 3.3). With less
// than six pairs the bounds are 0 and infinity.
func Gain(direct, remedy []float64) Interval {
	n := min(len(direct), len(remedy))
	if n == 0 {
		return Interval{0, math.NaN(), math.Inf(1)}
	}
	logs := make([]float64, n)
	for i := range logs {
		logs[i] = math.Log(direct[i] / remedy[i])
	}
	gain := WalshInterval(logs, 0.95).Exp()
	if n < LeastPairs {
		gain.Lo, gain.Hi = 0, math.Inf(1)
	}
	return gain
}

// LeastPairs is the smallest number of pairs whose signed ranks can be significant at 5 %, two-sided: 2 ÷ 2⁶
// is 3 %.
const LeastPairs = 6

// CentreInterval is the center of samples of one positive quantity, such as times or rates, with bounds as in [Gain].
func CentreInterval(samples []float64) Interval {
	ones := make([]float64, len(samples))
	for i := range ones {
		ones[i] = 1
	}
	return Gain(samples, ones)
}
