//go:build cuda

package cuda

import (
	"context"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// How the memory is measured: over 8 GiB, or a quarter of what is free where that is
// less, since an L2 of 60 MiB keeps enough of a single gibibyte from one pass to the
// next to show; a block is a few milliseconds, and the median of several counts.
const (
	ceilingBytes   = 8 << 30
	ceilingSamples = 9
	ceilingSeconds = 4e-3
)

// measureCeilings looks up the peaks and measures the memory.
func (d *Device) measureCeilings(ctx context.Context) (kernels.Ceilings, error) {
	fail := func(err error) (kernels.Ceilings, error) {
		return kernels.Ceilings{}, fmt.Errorf("measure the memory of %s: %w", d.spec.ID, err)
	}
	bytes := int64(ceilingBytes)
	if free, ok := d.FreeMemory(); ok {
		bytes = min(bytes, free/4)
	}
	bytes = max(bytes, 1<<20) / 32 * 32
	memory, err := d.alloc(bytes + 256)
	if err != nil {
		return fail(err)
	}
	defer memory.Close()
	if err := memory.Fill(kernels.Normal, kernels.FP32, bytes/4, 1); err != nil {
		return fail(err)
	}
	sink := memory.address + uint64(bytes)
	reads := []call{readCall(d.arch, memory.address, bytes, sink)}
	if c, ok := readBulkCall(d.arch, memory.address, bytes, sink); ok {
		reads = append(reads, c)
	}
	half := bytes / 2
	ceilings := kernels.Ceilings{Peaks: peaks(d.spec.Name, d.arch)}
	for _, m := range []struct {
		calls []call
		bytes int64 // that one launch moves
		to    *float64
	}{
		{reads, bytes, &ceilings.ReadBandwidth},
		{[]call{copyCall(d.arch, memory.address, memory.address+uint64(half), half)}, 2 * half, &ceilings.CopyBandwidth},
	} {
		for _, c := range m.calls {
			seconds, err := d.timeCall(ctx, c)
			if err != nil {
				return fail(err)
			}
			*m.to = max(*m.to, float64(m.bytes)/seconds)
		}
	}
	return ceilings, nil
}

// timeCall is the time of one of our kernels, the median of blocks of it.
func (d *Device) timeCall(ctx context.Context, c call) (float64, error) {
	l, err := d.newLaunch(c.kernel, c.kernel, calls([]call{c}))
	if err != nil {
		return 0, err
	}
	var seconds []float64
	n := 1
	for i := range ceilingSamples + 1 {
		span, err := d.Execute(ctx, []kernels.Launch{l}, n)
		if err != nil {
			return 0, err
		}
		if i == 0 { // tells how many make a block
			n = max(1, int(ceilingSeconds/max(span.Seconds, 1e-7)))
			continue
		}
		seconds = append(seconds, span.Seconds/float64(n))
	}
	slices.Sort(seconds)
	return seconds[len(seconds)/2], nil
}
