package results

import (
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// LostUS returns the microseconds per launch that the block was stopped because its threads were descheduled;
// 0 if unknown or negligible.
func (s *Sample) LostUS() float64 {
	if s.Disturbance == "" {
		return 0
	}
	lost := kernels.ParseDisturbance(s.Disturbance).Lost
	us := float64(lost) / float64(time.Microsecond) / float64(max(s.Launches, 1))
	if us < s.US {
		return us
	}
	return 0
}
