package mistral

import (
	"context"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// step is a launch, or a layer's experts that the host routes to.
type step struct {
	part    Part
	launch  kernels.Launch // nil if there is a mixture
	mixture *mixture
	// products are those that a fused launch computes.
	products []*projection
}

func (s step) routed() bool { return s.mixture != nil }

func launches(steps []step) []kernels.Launch {
	all := make([]kernels.Launch, len(steps))
	for i, s := range steps {
		all[i] = s.launch
	}
	return all
}

// run executes steps n times in order. Without experts they are one block; with them, the span adds up the blocks between
// the experts by the device's timestamps and the experts by the host's clock.
func (s *Session) run(ctx context.Context, steps []step, n int) (kernels.Span, error) {
	if !slices.ContainsFunc(steps, step.routed) {
		ls := launches(steps)
		return s.m.dev.Execute(ctx, ls, n*len(ls))
	}
	var total kernels.Span
	for range n {
		for left := steps; len(left) > 0; {
			var span kernels.Span
			var err error
			next := slices.IndexFunc(left, step.routed)
			switch {
			case next == 0:
				next = 1
				span, err = left[0].mixture.run(ctx)
			case next < 0:
				next = len(left)
				fallthrough
			default:
				span, err = s.m.dev.Execute(ctx, launches(left[:next]), next)
			}
			if err != nil {
				return total, err
			}
			total = joined(total, span)
			left = left[next:]
		}
	}
	return total, nil
}

// joined is the span of two blocks in turn.
func joined(a, b kernels.Span) kernels.Span {
	a.Seconds += b.Seconds
	a.Ahead += b.Ahead
	a.Lost += b.Lost
	if b.ClockMHz > 0 {
		a.ClockMHz = b.ClockMHz
	}
	d, e := &a.Disturbance, b.Disturbance
	d.Stolen += e.Stolen
	d.Suspended += e.Suspended
	d.HeldUp += e.HeldUp
	d.Preempted += e.Preempted
	d.Lost += e.Lost
	d.Block += e.Block
	if e.Other != "" {
		d.Other = e.Other
	}
	return a
}
