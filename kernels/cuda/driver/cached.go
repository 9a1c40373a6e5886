//go:build cuda

package driver

import (
	"context"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// least is what a launch reads that does next to nothing, in bytes.
const least = 512

// Cached measures what a launch takes that does next to nothing, in seconds, and how many bytes a cycle L2 gives each
// multiprocessor. The latter follows from what half of L2 takes longer to read than an eighth; it is 0 where the
// clock is not known.
func (d *Device) Cached(ctx context.Context) (launch, l2 float64, err error) {
	fail := func(err error) (float64, float64, error) {
		return 0, 0, fmt.Errorf("measure L2 of %s: %w", d.spec.ID, err)
	}
	half := max(d.arch.L2/2, 8*least) / (8 * 32) * (8 * 32)
	memory, err := d.alloc(half + 256)
	if err != nil {
		return fail(err)
	}
	defer memory.Close()
	if err := memory.Fill(kernels.Normal, kernels.FP32, half/4, 1); err != nil {
		return fail(err)
	}
	sink := memory.Address + uint64(half)
	if launch, _, err = d.timeReads(ctx, support.ReadCall(d.arch, memory.Address, least, sink)); err != nil {
		return fail(err)
	}
	ways := [][2]planning.Call{{support.ReadCall(d.arch, memory.Address, half, sink), support.ReadCall(d.arch, memory.Address, half/4, sink)}}
	if long, ok := support.ReadBulkCall(d.arch, memory.Address, half, sink); ok {
		short, _ := support.ReadBulkCall(d.arch, memory.Address, half/4, sink)
		ways = append(ways, [2]planning.Call{long, short})
	}
	for _, way := range ways {
		long, clock, err := d.timeReads(ctx, way[0])
		if err != nil {
			return fail(err)
		}
		short, _, err := d.timeReads(ctx, way[1])
		if err != nil {
			return fail(err)
		}
		if long > short && clock > 0 {
			l2 = max(l2, float64(half-half/4)/(long-short)/(clock*1e6*float64(d.arch.SMs)))
		}
	}
	return launch, l2, nil
}

// timeReads is the time of a call, the median of blocks of it, and the clock in MHz, 0 where that is not known.
func (d *Device) timeReads(ctx context.Context, c planning.Call) (seconds, clockMHz float64, err error) {
	const samples, n = 9, 400
	l, err := d.NewLaunch("read", fmt.Sprintf("read %v by %s", c.Args.Bytes, c.Kernel), Steps([]planning.Call{c}))
	if err != nil {
		return 0, 0, err
	}
	var times, clocks []float64
	for range samples {
		span, err := d.Execute(ctx, []kernels.Launch{l}, n)
		if err != nil {
			return 0, 0, err
		}
		times, clocks = append(times, span.Seconds/n), append(clocks, span.ClockMHz)
	}
	slices.Sort(times)
	slices.Sort(clocks)
	return times[samples/2], clocks[samples/2], nil
}
