package rules

import (
	"context"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
)

// Sustainer measures cases as they run alone for long, at the clock that the device
// then settles at. Package sweep satisfies it.
type Sustainer interface {
	// Sustain runs each case alone for span, half a second or more, and returns one
	// sample of phase sustained for each, in order: what a launch takes once the device
	// has settled, at which clock, power and energy. A case that failed has no launches
	// in its sample.
	Sustain(ctx context.Context, cases []results.Case, span time.Duration) ([]results.Sample, error)
}
