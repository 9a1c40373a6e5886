package candidates

import "github.com/gemmaudit/gemmaudit/rules/stats"

// Median is [stats.MedianInterval].
func Median(samples []float64) (mid, low, high float64) { return stats.MedianInterval(samples) }
