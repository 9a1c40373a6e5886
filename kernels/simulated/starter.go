package simulated

import (
	"context"
	"fmt"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Starter is a simulated device that runs blocks asynchronously: virtual time between start and wait overlaps
// the block. Calls that a real device must not get while blocks are in flight fail.
type Starter struct {
	*Device
	// Late reports failures at the end of the block instead of at its start.
	Late bool
	// Starting is the virtual host time of Start.
	Starting time.Duration
}

// Start implements [kernels.Starter].
func (s *Starter) Start(ctx context.Context, block kernels.Block) (func() (kernels.Span, error), error) {
	if len(s.flying) == 2 {
		return nil, fmt.Errorf("%s: two blocks are in flight", s.cfg.ID)
	}
	s.Advance(s.Starting)
	span, end, failure := s.begin(ctx, block)
	if failure != nil {
		if !s.Late {
			return nil, failure
		}
		end = s.elapsed
		if n := len(s.flying); n > 0 {
			end = max(end, s.flying[n-1])
		}
	}
	s.flying = append(s.flying, end)
	waited := false
	return func() (kernels.Span, error) {
		if waited || s.flying[0] != end {
			return kernels.Span{}, fmt.Errorf("%s: a block was waited for before the one ahead of it, or twice", s.cfg.ID)
		}
		waited, s.flying = true, s.flying[1:]
		if failure == nil {
			s.end(end)
		}
		return span, failure
	}, nil
}

// Prime implements [kernels.Primer]: first runs take no longer.
func (s *Starter) Prime(context.Context, kernels.Launch) (float64, error) { return 0, nil }

// Execute implements [kernels.Device].
func (s *Starter) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	if err := s.idle("execute"); err != nil {
		return kernels.Span{}, err
	}
	wait, err := s.Start(ctx, kernels.Block{Launches: launches, N: n})
	if err != nil {
		return kernels.Span{}, err
	}
	return wait()
}
