package kerneltest

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Governor is a power limit: the clock of a block follows what the blocks before it would
// have drawn at the highest clock, averaged over Memory, and times
// follow the clock.
type Governor struct {
	MaxMHz float64
	LimitW float64
	IdleW  float64
	Memory float64 // seconds
	// Watts is what a problem draws at the highest clock.
	Watts func(p kernels.Problem) float64
}

// governed is the state of a governor.
type governed struct {
	watts float64 // drawn lately
	at    float64 // when that was, in virtual seconds
}

// clock is that of a block which begins at a time, after a rest since the last one.
func (g *Governor) clock(s *governed, at float64) float64 {
	s.drift(g.IdleW, at-s.at, g.Memory)
	return g.MaxMHz * min(1, g.LimitW/max(s.watts, g.LimitW))
}

// ran takes a block into account.
func (g *Governor) ran(s *governed, watts, began, seconds float64) {
	s.drift(watts, seconds, g.Memory)
	s.at = began + seconds
}

// limited says whether the limit holds the device back.
func (g *Governor) limited(s *governed) bool { return s.watts > g.LimitW }

func (s *governed) drift(to, seconds, memory float64) {
	s.watts += (1 - math.Exp(-seconds/memory)) * (to - s.watts)
}
