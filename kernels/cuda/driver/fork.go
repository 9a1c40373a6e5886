//go:build cuda

package driver

/*
#include <stdlib.h>
#include "fork.h"

static ga_cuda_forked *forked(const ga_cuda_lanes *lanes, int count) {
  ga_cuda_forked *f = calloc(1, sizeof(ga_cuda_forked) + (size_t)count * sizeof(ga_cuda_launch *));
  if (f != NULL) *f = (ga_cuda_forked){lanes, count};
  return f;
}

static void fork_at(ga_cuda_forked *f, int i, const ga_cuda_launch *of) { f->launches[i] = of; }
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Lanes is the number of streams of [Device.Fork]. Transformer Engine has as many for its grouped products.
const Lanes = C.GA_LANES

// Fork returns a launch that runs other launches of this device, no graphs, at the same time: the i-th in lane
// i mod [Lanes]. It begins after the work before it, and later work waits for all of it. Launches of different lanes must
// share no workspace: see [Device.LaneScratch]. Errors are those of [Device.Join].
func (d *Device) Fork(launches []kernels.Launch) (*Launch, error) {
	j, err := d.gather("fork launches", launches)
	if err != nil {
		return nil, err
	}
	lanes, err := d.openLanes()
	if err != nil {
		return nil, err
	}
	f := C.forked(lanes, C.int(len(j.parts)))
	if f == nil {
		return nil, errors.New("out of host memory")
	}
	for i, l := range j.parts {
		C.fork_at(f, C.int(i), l.c)
	}
	s := Step{Enqueue: C.ga_cuda_fork_enqueue, Self: unsafe.Pointer(f), Launches: j.queued}
	all, err := d.NewLaunch("", "at the same time:\n"+j.plan, []Step{s}, j.parts)
	if err != nil {
		C.free(unsafe.Pointer(f))
		return nil, err
	}
	runtime.AddCleanup(all, func(f *C.ga_cuda_forked) { C.free(unsafe.Pointer(f)) }, f)
	all.Library = func(code int) error {
		switch {
		case code >= C.GA_FORK_DRIVER:
			return result(C.CUresult(code - C.GA_FORK_DRIVER))
		case j.library != nil:
			return j.library(code)
		}
		return fmt.Errorf("code %d", code)
	}
	all.Named = j.named(fmt.Sprintf("in %d streams", min(Lanes, len(j.parts))))
	return all, nil
}

// lanes are the streams of [Device.Fork].
type lanes struct{ c *C.ga_cuda_lanes } // nil before the first fork

// openLanes creates the streams at the first call.
func (d *Device) openLanes() (*C.ga_cuda_lanes, error) {
	if d.lanes.c != nil {
		return d.lanes.c, nil
	}
	leave, err := d.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	all := (*C.ga_cuda_lanes)(C.calloc(1, C.sizeof_ga_cuda_lanes))
	d.OnClose(func() error {
		d.lanes.c = nil
		C.free(unsafe.Pointer(all)) // last, as closers run in reverse order
		return nil
	})
	event := func(to *C.CUevent) error {
		of, err := cu.MakeEvent(cu.DisableTiming)
		if err != nil {
			return d.failed(driver(err), "create an event")
		}
		*to = C.CUevent(handle(&of))
		d.OnClose(func() error { return driver(cu.DestroyEvent(&of)) })
		return nil
	}
	if err := event(&all.fork); err != nil {
		return nil, err
	}
	for i := range all.stream {
		stream, err := cu.MakeStream(cu.NonBlocking)
		if err != nil {
			return nil, d.failed(driver(err), "create a stream")
		}
		d.OnClose(func() error { return driver(stream.Destroy()) })
		all.stream[i] = C.CUstream(handle(&stream))
		if err := event(&all.end[i]); err != nil {
			return nil, err
		}
	}
	d.lanes.c = all
	return all, nil
}

// LaneScratch returns the address of a workspace with undefined content for the launches of one lane of [Device.Fork].
// The first lane has that of [Device.Scratch], because no other launch runs at the same time.
func (d *Device) LaneScratch(lane int, bytes int64) (uint64, error) {
	if lane == 0 {
		return d.Scratch(bytes)
	}
	return d.workspace(&d.spaces.lanes[lane-1], bytes, 0, false)
}
