package rules

import "github.com/gemmaudit/gemmaudit/results"

// copyLaunchUS is what a launch that copies rows takes beside its bytes, in microseconds, at least. It
// only decides which copied pads are worth trying.
const copyLaunchUS = 1

// copyUS is about what it takes to copy the rows of a product, in microseconds: bytes that are read and
// written at the bandwidth of memory. A prediction; what a pad with its copy takes is measured.
func copyUS(s results.Series, m int) float64 {
	if s.Bandwidth.Rate <= 0 {
		return copyLaunchUS
	}
	bytes := float64(s.Key.InputElements(m)) * float64(s.Key.DType.Size())
	return copyLaunchUS + 2*bytes/s.Bandwidth.Rate*1e6
}
