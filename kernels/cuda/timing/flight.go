//go:build cuda

package timing

import (
	"context"
	"errors"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Rotation is the launches of one kernel over the copies of operands that stay in memory. A block has N of
// them.
type Rotation struct {
	Launches []kernels.Launch
	N        int
	at       int
}

// Turned returns the launches, starting with those that were not in the previous block.
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

const mostInFlight = 2

// Flight prepares one block while the previous one runs. The GPU is then idle between them as little as under
// load, and has the same clock.
type Flight struct {
	Device  kernels.Starter
	pending []func() error
}

// Start starts a block. landed receives the error if the block can't start, or else its span or error when it
// ends. landed's error is returned by this Start, by a later one or by Land.
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

// Land waits for all blocks in flight.
func (f *Flight) Land() (err error) {
	for len(f.pending) > 0 {
		err = errors.Join(err, f.next())
	}
	return err
}
