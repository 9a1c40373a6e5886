//go:build cuda

package driver

// #include "execute.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// blockingTimeoutNs is the maximum time that the blocking kernel holds a block. Enqueueing a chunk takes
// milliseconds; a slower host was itself delayed, and the device must not wait forever.
const blockingTimeoutNs = 1e9

// blocks are a device's resources for executing blocks: a stream, the kernels around a block, and host memory
// that the device writes to.
type blocks struct {
	c      C.ga_cuda_blocks
	stream cu.Stream
	around []*Launch // hold the steps to which c points
	window []C.uintptr_t
	flying [C.GA_BLOCKS]bool // blocks started and not waited for
	primed map[string]bool   // plans that have run
	names  map[string]string // of a library's kernels, by plan
}

// openBlocks needs the device's context to be current.
func (d *Device) openBlocks() error {
	d.blocks = &blocks{primed: map[string]bool{}, names: map[string]string{}}
	b := d.blocks
	var err error
	if b.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return d.failed(driver(err), "create a stream")
	}
	d.OnClose(func() error { return driver(b.stream.Destroy()) })
	var events [8]cu.Event
	for i := range events {
		if events[i], err = cu.MakeEvent(cu.DefaultEvent); err != nil {
			return d.failed(driver(err), "create an event")
		}
		d.OnClose(func() error { return driver(cu.DestroyEvent(&events[i])) })
	}
	var page unsafe.Pointer
	var address C.CUdeviceptr
	err = result(C.cuMemHostAlloc(&page, C.sizeof_ga_cuda_page, C.CU_MEMHOSTALLOC_DEVICEMAP))
	if err != nil {
		return d.failed(err, "allocate %d bytes of pinned host memory", C.sizeof_ga_cuda_page)
	}
	d.OnClose(func() error { return driver(cu.MemFreeHost(page)) })
	if err := result(C.cuMemHostGetDevicePointer(&address, page, 0)); err != nil {
		return d.failed(err, "map host memory")
	}
	clear(unsafe.Slice((*byte)(page), C.sizeof_ga_cuda_page))

	// Numbers of multiprocessors may have gaps.
	slots := min(2*d.arch.SMs, C.GA_STAMPS)
	shape := (*C.ga_cuda_page)(page)
	b.c = C.ga_cuda_blocks{
		context: C.CUcontext(handle(&d.context)), stream: C.CUstream(handle(&b.stream)),
		page: shape, slots: C.int(slots),
		begin: C.CUevent(handle(&events[6])), end: C.CUevent(handle(&events[7])),
	}
	onDevice := func(host unsafe.Pointer) uint64 { return uint64(address) + uint64(uintptr(host)-uintptr(page)) }
	for i := range b.c.chunk {
		at := &shape.chunk[i]
		var steps [3]*C.ga_cuda_step
		for j, c := range []planning.Call{
			support.BlockingCall(onDevice(unsafe.Pointer(&shape.flag)), 0, blockingTimeoutNs, onDevice(unsafe.Pointer(&at.gate))),
			support.StampCall(d.arch, onDevice(unsafe.Pointer(&at.before)), slots),
			support.StampCall(d.arch, onDevice(unsafe.Pointer(&at.after)), slots),
		} {
			l, err := d.NewLaunch(c.Kernel, c.Kernel, Steps([]planning.Call{c}))
			if err != nil {
				return fmt.Errorf("prepare blocks: %w", err)
			}
			b.around = append(b.around, l)
			steps[j] = (*C.ga_cuda_step)(unsafe.Add(unsafe.Pointer(l.c), C.sizeof_ga_cuda_launch))
		}
		b.c.chunk[i] = C.ga_cuda_chunk{
			begin: C.CUevent(handle(&events[3*i])), end: C.CUevent(handle(&events[3*i+1])), done: C.CUevent(handle(&events[3*i+2])),
			gate: steps[0], before: steps[1], after: steps[2],
			ticket: (*C.int32_t)(unsafe.Add(steps[0].params, ticketOffset)), taken: 1,
		}
	}
	// Kernels are loaded at their first run. Loading may wait for an idle device, which would deadlock behind
	// a blocking kernel.
	for _, l := range b.around {
		if _, err := d.Once(l); err != nil {
			return err
		}
	}
	return nil
}

// ticketOffset is the position of the ticket in ga_gate's parameters, after two addresses and the timeout.
const ticketOffset = 24

// handle returns the driver's handle in a type of gorgonia.org/cu, which is a struct with only that.
func handle[T cu.CUContext | cu.Stream | cu.Event | cu.Function](of *T) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(of))
}

// Execute enqueues the launches behind a blocking kernel and then ends that kernel, which excludes launch
// overhead from the time. Events enclose the launches; stamps of the multiprocessors enclose the events and
// give the clock. Blocks of many launches run in several such chunks. A block started behind another has its
// own blocking kernel after the other's stamps. It begins when the other has ended and its launches, or those
// of its first chunk, are on the stream.
func (d *Device) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	wait, err := d.Start(ctx, kernels.Block{Launches: launches, N: n})
	if err != nil {
		return kernels.Span{}, err
	}
	return wait()
}

// Start implements [kernels.Starter]. It returns when the last chunk is on the stream.
func (d *Device) Start(ctx context.Context, block kernels.Block) (wait func() (kernels.Span, error), err error) {
	launches, n := block.Launches, block.N
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(launches) == 0 || n < 1 {
		return nil, fmt.Errorf("execute %d launches of %d: expected at least one of each", n, len(launches))
	}
	if d.lost != nil {
		return nil, d.lost
	}
	if d.context == (cu.CUContext{}) {
		return nil, fmt.Errorf("execute on %s: the device is closed", d.spec.ID)
	}
	b := d.blocks
	at := slices.Index(b.flying[:], false)
	if at < 0 {
		return nil, errRunning
	}
	ahead := 0
	used := launches[:min(len(launches), n)]
	b.window = slices.Grow(b.window[:0], len(used))
	for i, it := range used {
		l, ok := it.(*Launch)
		if !ok || l.dev != d {
			return nil, fmt.Errorf("execute on %s: launch %d is a %T of another device", d.spec.ID, i, it)
		}
		if l.graph && l.exec == nil {
			return nil, fmt.Errorf("execute on %s: launch %d, a %s, is closed", d.spec.ID, i, l.Plan)
		}
		ran, err := d.primeAhead(l)
		if err != nil {
			return nil, err
		}
		if ran {
			ahead++
		}
		b.window = append(b.window, C.uintptr_t(uintptr(unsafe.Pointer(l.c))))
	}
	overlap := C.ga_cuda_overlap(C.GA_OVERLAP_ALL)
	if block.Serial {
		overlap = C.GA_OVERLAP_INSIDE
	}
	C.ga_cuda_start(&b.c, C.int(at), &b.window[0], C.int64_t(len(b.window)), C.int64_t(n), overlap)
	b.flying[at] = true
	waited := false
	return func() (kernels.Span, error) {
		if waited {
			return kernels.Span{}, fmt.Errorf("wait for a block on %s: it was waited for", d.spec.ID)
		}
		waited = true
		span, err := d.wait(at, launches)
		if err == nil {
			span.Ahead = ahead
		}
		return span, err
	}, nil
}

func (d *Device) wait(at int, launches []kernels.Launch) (kernels.Span, error) {
	b := d.blocks
	C.ga_cuda_wait(&b.c, C.int(at))
	b.flying[at] = false
	runtime.KeepAlive(launches)
	span := &b.c.span[at]
	if err := d.spanError(span, launches); err != nil {
		return kernels.Span{}, err
	}
	s := kernels.Span{Seconds: float64(span.seconds), ClockMHz: float64(span.mhz)}
	if span.held_ns > 0 {
		s.Lost = time.Duration(span.held_ns)
		s.Disturbance.HeldUp = s.Lost
	}
	return s, nil
}

// Prime implements [kernels.Primer].
func (d *Device) Prime(ctx context.Context, of kernels.Launch) (seconds float64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l, ok := of.(*Launch)
	if !ok || l.dev != d {
		return 0, fmt.Errorf("prime on %s: the launch is a %T of another device", d.spec.ID, of)
	}
	return d.prime(l)
}

// prime runs the first launch of a plan once, after blocks in flight. Libraries and the driver load kernels
// at first use, which would deadlock behind a blocking kernel.
func (d *Device) prime(l *Launch) (seconds float64, err error) {
	if l.Primed {
		return 0, nil
	}
	if !d.blocks.primed[l.Plan] {
		if seconds, err = d.Once(l); err != nil {
			return 0, err
		}
		d.blocks.primed[l.Plan] = true
	}
	l.Primed = true
	return seconds, nil
}

// primeAhead is prime without waiting if a block is in flight, to keep the device busy. ran means that the
// launch runs before its block, untimed.
func (d *Device) primeAhead(l *Launch) (ran bool, err error) {
	if l.Primed || d.blocks.primed[l.Plan] || !slices.Contains(d.blocks.flying[:], true) {
		_, err := d.prime(l)
		return false, err
	}
	var span C.ga_cuda_span
	C.ga_cuda_ahead(&d.blocks.c, l.c, &span)
	runtime.KeepAlive(l)
	if err := d.spanError(&span, []kernels.Launch{l}); err != nil {
		return false, err
	}
	d.blocks.primed[l.Plan], l.Primed = true, true
	return true, nil
}

// errRunning: no events are free, because all blocks in flight use theirs.
var errRunning = errors.New("two blocks are in flight: wait for the first of them")

// Once runs a launch alone, after the work in flight.
func (d *Device) Once(l *Launch) (seconds float64, err error) {
	if d.lost != nil {
		return 0, d.lost
	}
	var span C.ga_cuda_span
	C.ga_cuda_once(&d.blocks.c, l.c, &span)
	runtime.KeepAlive(l)
	return float64(span.seconds), d.spanError(&span, []kernels.Launch{l})
}

// spanError returns a block's error, or nil. It names the failed launch if known, otherwise the block's
// launches.
func (d *Device) spanError(span *C.ga_cuda_span, launches []kernels.Launch) error {
	if span.code == C.CUDA_SUCCESS && span.library == 0 {
		return nil
	}
	l := launches[0]
	if span.failed_at >= 0 {
		l = launches[int(span.failed_at)%len(launches)]
	}
	what := l.(*Launch).Plan
	if span.library != 0 && span.code == C.CUDA_SUCCESS {
		err := fmt.Errorf("code %d", int(span.library))
		if word := l.(*Launch).Library; word != nil {
			err = word(int(span.library))
		}
		if unusable(err) != nil {
			return d.failed(err, "launch %s", what)
		}
		return fmt.Errorf("execute on %s: %s: launch %d: %w", d.spec.ID, what, int(span.failed_at), err)
	}
	switch {
	case span.failed_at >= 0:
		return d.failed(result(span.code), "launch %s", what)
	case len(launches) > 1:
		return d.failed(result(span.code), "run %s and %d more launches", what, len(launches)-1)
	}
	return d.failed(result(span.code), "run %s", what)
}
