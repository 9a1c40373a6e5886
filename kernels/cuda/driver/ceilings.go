//go:build cuda

package driver

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
	"github.com/gemmaudit/gemmaudit/kernels/cuda/datasheet"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
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
	c.Peaks = datasheet.Peaks(d.spec.Name, d.arch)
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
	sink, half := memory.Address+uint64(bytes), bytes/2
	target := memory.Address + uint64(half)
	reads := Steps([]planning.Call{support.ReadCall(d.arch, memory.Address, bytes, sink)})
	if c, ok := support.ReadBulkCall(d.arch, memory.Address, bytes, sink); ok {
		reads = append(reads, Step{call: c})
	}
	own := (*C.ga_cuda_copy)(C.malloc(C.sizeof_ga_cuda_copy))
	defer C.free(unsafe.Pointer(own))
	*own = C.ga_cuda_copy{dst: C.CUdeviceptr(target), src: C.CUdeviceptr(memory.Address), bytes: C.size_t(half)}
	copies := append(Steps([]planning.Call{support.CopyCall(d.arch, memory.Address, target, half)}),
		Step{Enqueue: C.ga_cuda_copy_enqueue, Self: unsafe.Pointer(own), Launches: 1})
	for _, m := range []struct {
		name  string
		steps []Step
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
func (d *Device) timeStep(ctx context.Context, name string, s Step) (float64, error) {
	l, err := d.NewLaunch(name, name+s.call.Kernel, []Step{s})
	if err != nil {
		return 0, err
	}
	l.Library = func(code int) error { return result(C.CUresult(code)) } // the driver's copy
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
