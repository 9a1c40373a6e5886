package remedy

import "github.com/gemmaudit/gemmaudit/results"

// copyLaunchUS is the least overhead of a launch that copies rows, in microseconds. It only decides which
// copied pads are worth trying.
const copyLaunchUS = 1

// copyUS predicts the time to copy the rows of a product, in microseconds: bytes read and written at memory
// bandwidth. The time of a pad with its copy is measured, not predicted.
func copyUS(s results.Series, m int) float64 {
	if s.Bandwidth.Rate <= 0 {
		return copyLaunchUS
	}
	bytes := float64(s.Key.InputBytes(m))
	return copyLaunchUS + 2*bytes/s.Bandwidth.Rate*1e6
}
