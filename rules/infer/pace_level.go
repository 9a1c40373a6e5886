package infer

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// paceDF is the least degrees of freedom of a run's pace. The degrees of freedom are the number of independent
// stretches less one.
const paceDF = 1

// paceLevel is the standard error of the median pace of a run. Its degrees of freedom are the number of
// independent stretches less one. values are the pace in order of time.
func paceLevel(values []float64) stats.Estimate {
	n := len(values)
	mean := stats.Mean(values)
	at := func(lag int) (sum float64) {
		for i := lag; i < n; i++ {
			sum += (values[i] - mean) * (values[i-lag] - mean)
		}
		return sum / float64(n)
	}
	variance := at(0)
	if n < 2 || variance == 0 {
		return stats.Estimate{DF: math.Inf(1)}
	}
	// Sums the autocorrelation until it is below its own noise.
	sum := 1.0
	for lag := 1; lag < n/2; lag++ {
		r := at(lag) / variance
		if r <= 0.05 {
			break
		}
		sum += 2 * r
	}
	stretches := math.Max(1, float64(n)/sum)
	return stats.Estimate{SE: stats.MedianFactor * math.Sqrt(variance/stretches), DF: math.Max(paceDF, stretches-1)}
}

// LevelOf is the uncertainty of the usual moment of a device's run; zero if times were not adjusted by the
// pace.
func (p *Estimates) LevelOf(device string) stats.Estimate {
	if e, ok := p.levels[device]; ok {
		return e
	}
	return stats.Estimate{DF: math.Inf(1)}
}
