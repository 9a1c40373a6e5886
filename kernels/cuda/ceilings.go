//go:build cuda

package cuda

/*
#include <stdlib.h>
#include "execute.h"
*/
import "C"

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

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
func (d *Device) measureCeilings(ctx context.Context) (c kernels.Ceilings, err error) {
	c.Peaks = peaks(d.spec.Name, d.arch)
	c.ReadBandwidth, c.CopyBandwidth, err = d.Bandwidth(ctx)
	return c, err
}

// Bandwidth measures the memory anew.
func (d *Device) Bandwidth(ctx context.Context) (read, copied float64, err error) {
	fail := func(err error) (float64, float64, error) {
		return 0, 0, fmt.Errorf("measure the memory of %s: %w", d.spec.ID, err)
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
	sink, half := memory.address+uint64(bytes), bytes/2
	target := memory.address + uint64(half)
	reads := calls([]call{readCall(d.arch, memory.address, bytes, sink)})
	if c, ok := readBulkCall(d.arch, memory.address, bytes, sink); ok {
		reads = append(reads, step{call: c})
	}
	own := (*C.ga_cuda_copy)(C.malloc(C.sizeof_ga_cuda_copy))
	defer C.free(unsafe.Pointer(own))
	*own = C.ga_cuda_copy{dst: C.CUdeviceptr(target), src: C.CUdeviceptr(memory.address), bytes: C.size_t(half)}
	copies := append(calls([]call{copyCall(d.arch, memory.address, target, half)}),
		step{enqueue: C.ga_cuda_copy_enqueue, self: unsafe.Pointer(own), launches: 1})
	for _, m := range []struct {
		name  string
		steps []step
		to    *float64
	}{
		{"read memory", reads, &read},
		{"copy memory", copies, &copied},
	} {
		// The best of several ways is what the card can do. All move the same bytes.
		for _, s := range m.steps {
			seconds, err := d.timeStep(ctx, m.name, s)
			if err != nil {
				return fail(err)
			}
			*m.to = max(*m.to, float64(bytes)/seconds)
		}
	}
	return read, copied, nil
}

// timeStep is the time of one step, the median of blocks of it.
func (d *Device) timeStep(ctx context.Context, name string, s step) (float64, error) {
	l, err := d.newLaunch(name, name+s.call.kernel, []step{s})
	if err != nil {
		return 0, err
	}
	l.library = func(code int) error { return result(C.CUresult(code)) } // the driver's copy
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
