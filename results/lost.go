package results

import (
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// LostUS is how much of the time of one launch, in microseconds, the block stood still because threads were
// kept off their CPUs; 0 where that is not known or too little to matter.
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
