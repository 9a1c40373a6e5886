//go:build cuda

package driver

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
	"github.com/gemmaudit/gemmaudit/kernels/datasheet"
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
	c.Peaks = datasheet.Peaks(d.spec.Name, datasheet.Chip{CC: d.arch.CC, SMs: d.arch.SMs, ClockMHz: d.arch.ClockMHz})
	if c.ReadBandwidth, c.CopyBandwidth, err = d.Bandwidth(ctx); err != nil {
		return c, err
	}
	c.LinkBandwidth, err = d.linkBandwidth()
	return c, err
}

// How the link to the host is measured: by the fastest of some uploads of a size at which what a call costs does not matter. The
// memory is the host's ordinary one, as it is when weights are loaded.
const (
	linkBytes   = 16 << 20
	linkSamples = 5
)

// linkBandwidth measures uploads.
func (d *Device) linkBandwidth() (float64, error) {
	memory, err := d.alloc(linkBytes)
	if err != nil {
		return 0, fmt.Errorf("measure the link of %s: %w", d.spec.ID, err)
	}
	defer memory.Close()
	from := make([]byte, linkBytes)
	for i := 0; i < len(from); i += os.Getpagesize() {
		from[i] = 1 // so that there is memory behind it
	}
	best := math.Inf(1)
	for range linkSamples {
		began := time.Now()
		if err := memory.Upload(0, from); err != nil {
			return 0, fmt.Errorf("measure the link of %s: %w", d.spec.ID, err)
		}
		best = min(best, max(time.Since(began).Seconds(), 1e-6))
	}
	return linkBytes / best, nil
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
	copies, err := d.NewCopies(target, memory.Address, half)
	if err != nil {
		return fail(err)
	}
	// The best of several ways is what the card can do. All move the same bytes.
	for _, s := range reads {
		l, err := d.NewLaunch("read memory", "read memory"+s.call.Kernel, []Step{s})
		if err != nil {
			return fail(err)
		}
		seconds, err := d.timeLaunch(ctx, l)
		if err != nil {
			return fail(err)
		}
		read = max(read, float64(bytes)/seconds)
	}
	for _, l := range copies {
		seconds, err := d.timeLaunch(ctx, l)
		if err != nil {
			return fail(err)
		}
		copied = max(copied, float64(bytes)/seconds)
	}
	return read, copied, nil
}

// NewCopies are launches that copy bytes from address to address, both multiples of 16, as is the
// number of bytes: by a kernel, and by the driver. keep is held as long as they are.
func (d *Device) NewCopies(to, from uint64, bytes int64, keep ...any) ([]*Launch, error) {
	kernel, err := d.NewLaunch("copy", "copy memory by ga_copy", Steps([]planning.Call{support.CopyCall(d.arch, from, to, bytes)}), keep...)
	if err != nil {
		return nil, err
	}
	drivers, err := d.driverCopy(to, from, bytes, keep...)
	if err != nil {
		return nil, err
	}
	return []*Launch{kernel, drivers}, nil
}

// timeLaunch is the time of a launch, the median of blocks of it.
func (d *Device) timeLaunch(ctx context.Context, l *Launch) (float64, error) {
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
