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

// Memory is measured over 8 GiB, or a quarter of the free memory if that is less. An L2 of 60 MiB would
// noticeably cache a single GiB between passes. A block takes a few milliseconds; the median of several
// counts.
const (
	ceilingBytes   = 8 << 30
	ceilingSamples = 9
	ceilingSeconds = 4e-3
)

func (d *Device) measureCeilings(ctx context.Context) (c kernels.Ceilings, err error) {
	c.Peaks = datasheet.Peaks(d.spec.Name, datasheet.Chip{CC: d.arch.CC, SMs: d.arch.SMs, ClockMHz: d.arch.ClockMHz})
	if c.ReadBandwidth, c.CopyBandwidth, err = d.Bandwidth(ctx); err != nil {
		return c, err
	}
	c.LinkBandwidth, err = d.linkBandwidth()
	return c, err
}

// The host link is measured by the fastest of several uploads, large enough to hide the call overhead. Host
// memory is pageable, as when weights are loaded.
const (
	linkBytes   = 16 << 20
	linkSamples = 5
)

func (d *Device) linkBandwidth() (float64, error) {
	memory, err := d.alloc(linkBytes)
	if err != nil {
		return 0, fmt.Errorf("measure the link of %s: %w", d.spec.ID, err)
	}
	defer memory.Close()
	from := make([]byte, linkBytes)
	for i := 0; i < len(from); i += os.Getpagesize() {
		from[i] = 1 // makes the pages resident
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

// Bandwidth measures the memory's read and copy bandwidth.
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
	// The fastest method counts. All move the same bytes.
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

// NewCopies returns launches that copy bytes between addresses, all multiples of 16: by a kernel, and by the
// driver. They keep a reference to keep.
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

func (d *Device) timeLaunch(ctx context.Context, l *Launch) (float64, error) {
	var seconds []float64
	n := 1
	for i := range ceilingSamples + 1 {
		span, err := d.Execute(ctx, []kernels.Launch{l}, n)
		if err != nil {
			return 0, err
		}
		if i == 0 { // sets the launches per block
			n = max(1, int(ceilingSeconds/max(span.Seconds, 1e-7)))
			continue
		}
		seconds = append(seconds, span.Seconds/float64(n))
	}
	slices.Sort(seconds)
	return seconds[len(seconds)/2], nil
}
