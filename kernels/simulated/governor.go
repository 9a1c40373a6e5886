package simulated

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Governor is a power limit: a block's clock follows the power of earlier blocks at the highest clock,
// averaged over Memory, and times follow the clock.
type Governor struct {
	MaxMHz float64
	LimitW float64
	IdleW  float64
	Memory float64 // seconds
	// Watts returns a problem's power at the highest clock.
	Watts func(p kernels.Task) float64
}

type governed struct {
	watts float64 // drawn lately
	at    float64 // time of that, in virtual seconds
}

// clock returns the clock of a block that begins at a time, after idling since the last one.
func (g *Governor) clock(s *governed, at float64) float64 {
	s.drift(g.IdleW, at-s.at, g.Memory)
	return g.MaxMHz * min(1, g.LimitW/max(s.watts, g.LimitW))
}

func (g *Governor) ran(s *governed, watts, began, seconds float64) {
	s.drift(watts, seconds, g.Memory)
	s.at = began + seconds
}

func (g *Governor) limited(s *governed) bool { return s.watts > g.LimitW }

func (s *governed) drift(to, seconds, memory float64) {
	s.watts += (1 - math.Exp(-seconds/memory)) * (to - s.watts)
}
