//go:build cuda

package timing

import (
	"context"
	"errors"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Rotation is the launches of one kernel over the copies of what stays in memory. A block has N of them.
type Rotation struct {
	Launches []kernels.Launch
	N        int
	at       int
}

// Turned are the launches, those first that were not in the block before.
func (r *Rotation) Turned() []kernels.Launch {
	turned := slices.Concat(r.Launches[r.at:], r.Launches[:r.at])
	r.at = (r.at + r.N) % len(r.Launches)
	return turned
}

// Seconds executes one block on d and returns the time of a launch.
func (r *Rotation) Seconds(ctx context.Context, d kernels.Device) (float64, error) {
	span, err := d.Execute(ctx, r.Turned(), r.N)
	return span.Seconds / float64(r.N), err
}

// mostInFlight is how many blocks a device takes at a time.
const mostInFlight = 2

// Flight has one block put together while the one before it runs, so that the GPU rests between them as little as
// under load, and has the clock of it.
type Flight struct {
	Device  kernels.Starter
	pending []func() error
}

// Start begins a block. landed gets what came of it: the error where it can't begin, or else its span or error once it
// has ended. What landed returns is the error of this Start, of a later one or of Land.
func (f *Flight) Start(ctx context.Context, block kernels.Block, landed func(kernels.Span, error) error) error {
	if len(f.pending) == mostInFlight {
		if err := f.next(); err != nil {
			return err
		}
	}
	wait, err := f.Device.Start(ctx, block)
	if err != nil {
		return landed(kernels.Span{}, err)
	}
	f.pending = append(f.pending, func() error { return landed(wait()) })
	return nil
}

func (f *Flight) next() error {
	wait := f.pending[0]
	f.pending = f.pending[1:]
	return wait()
}

// Land waits for all that is in flight.
func (f *Flight) Land() (err error) {
	for len(f.pending) > 0 {
		err = errors.Join(err, f.next())
	}
	return err
}
