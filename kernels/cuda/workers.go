//go:build cuda

package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/worker"
)

// graphShare is the part of the GPU's memory that a worker's graphs and their results may take.
const graphShare = 0.05

// LoadWorker implements [kernels.WorkerLoader]. From then on launches of this process run as a worker's do: in graphs, one
// after the other, but those of [overlapping].
func (d *Device) LoadWorker(path string, how kernels.WorkerOptions) ([]kernels.Kernel, error) {
	if err := shareable(d.Spec()); err != nil {
		return nil, err
	}
	if underMPS(os.Getenv) {
		d.SetSetting(MPS, "on")
	}
	d.SetSetting(Launches, "one after the other, in graphs")
	if d.workers == nil {
		stamps, err := d.Stamps()
		if err != nil {
			return nil, err
		}
		d.workers = worker.NewSet(worker.Host{
			Device: d, Stamps: stamps, CopyOf: driver.CopyOf,
			// The worker sees this GPU alone, as its first.
			Env:        []string{"CUDA_VISIBLE_DEVICES=" + d.Spec().UUID, "CUDA_DEVICE_ORDER=PCI_BUS_ID"},
			GraphBytes: int64(graphShare * float64(d.Spec().MemoryBytes)),
			AddVersion: d.SetVersion, AddSetting: d.SetSetting,
		})
		d.workers.WhileWaiting(d.waiting)
	}
	return d.workers.Load(path, how)
}

// WhileWaiting implements [kernels.Waiter].
func (d *Device) WhileWaiting(f func()) {
	d.waiting = f
	if d.workers != nil {
		d.workers.WhileWaiting(f)
	}
}

// Execute implements [kernels.Device].
func (d *Device) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	wait, err := d.Start(ctx, kernels.Block{Launches: launches, N: n})
	if err != nil {
		return kernels.Span{}, err
	}
	return wait()
}

// Start implements [kernels.Starter]. With workers a block has ended when it returns: only one process has work on the
// device.
func (d *Device) Start(ctx context.Context, block kernels.Block) (wait func() (kernels.Span, error), err error) {
	if !d.workers.Active() {
		return d.Device.Start(ctx, block)
	}
	run := d.runOwn
	if overlaps(block) {
		run = d.runStream
	}
	if d.workers.Owns(block.Launches) {
		run = func(ctx context.Context, b kernels.Block) (kernels.Span, error) {
			return d.workers.Execute(ctx, b.Launches, b.N)
		}
	}
	if len(block.Launches) == 0 || block.N < 1 {
		return nil, fmt.Errorf("execute %d launches of %d: expected at least one of each", block.N, len(block.Launches))
	}
	span, err := run(ctx, block)
	if err != nil {
		return nil, err
	}
	return func() (kernels.Span, error) { return span, nil }, nil
}

// runOwn runs a block of this process in graphs.
func (d *Device) runOwn(ctx context.Context, block kernels.Block) (kernels.Span, error) {
	captured, err := d.graphs.of(d.Device, block)
	if err != nil {
		return kernels.Span{}, err
	}
	ahead := 0
	if d.workers.Own() {
		if _, err := d.Device.Execute(ctx, captured, len(captured)); err != nil {
			return kernels.Span{}, err
		}
		ahead = block.N
	}
	span, err := d.Device.Execute(ctx, captured, len(captured))
	span.Ahead = ahead
	return span, err
}

// runStream runs a block of this process on a stream, as without workers.
func (d *Device) runStream(ctx context.Context, block kernels.Block) (kernels.Span, error) {
	run := func() (kernels.Span, error) {
		wait, err := d.Device.Start(ctx, block)
		if err != nil {
			return kernels.Span{}, err
		}
		return wait()
	}
	leadIn := d.workers.Own()
	span, err := run()
	if err == nil && leadIn {
		span, err = run()
		span.Ahead = block.N
	}
	return span, err
}

// Prime implements [kernels.Primer].
func (d *Device) Prime(ctx context.Context, l kernels.Launch) (seconds float64, err error) {
	if d.workers.Owns([]kernels.Launch{l}) {
		return d.workers.Prime(ctx, l)
	}
	return d.Device.Prime(ctx, l)
}

// Close implements [kernels.Device].
func (d *Device) Close() error { return errors.Join(d.workers.Close(), d.Device.Close()) }
