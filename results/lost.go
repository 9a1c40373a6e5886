package results

import (
	"strconv"
	"strings"
)

// LostUS is how much of the time of one launch, in microseconds, the block stood still because threads were
// kept off their CPUs; 0 where that is not known or too little to matter. Run files keep it in the words of
// Disturbance: "preempted 4 times: lost 0.85 of 4.9 ms".
func (s *Sample) LostUS() float64 {
	_, rest, ok := strings.Cut(s.Disturbance, ": lost ")
	if !ok {
		return 0
	}
	text, _, ok := strings.Cut(rest, " of ")
	ms, err := strconv.ParseFloat(text, 64)
	if us := 1e3 * ms / float64(max(s.Launches, 1)); ok && err == nil && us > 0 && us < s.US {
		return us
	}
	return 0
}
