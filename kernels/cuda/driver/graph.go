//go:build cuda

package driver

// #include "graph.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Graph captures launches of this device, in sequence, into one CUDA graph, which costs the host and the
// device far less than separate launches. It keeps their overlap (programmatic edges) unless the driver
// refuses it; the label then has the reason. Launches that call a library run once before, if they have not
// yet, because libraries must not load code in a capture. The graph holds memory of the driver until it (an
// io.Closer) or the device is closed.
func (d *Device) Graph(launches []kernels.Launch) (kernels.Launch, error) {
	return d.graphOf(launches, C.GA_OVERLAP_ALL)
}

// SerialGraph is [Device.Graph] in which each launch waits for the end of the one before it. Kernels within a launch
// may overlap.
func (d *Device) SerialGraph(launches []kernels.Launch) (kernels.Launch, error) {
	return d.graphOf(launches, C.GA_OVERLAP_INSIDE)
}

func (d *Device) graphOf(launches []kernels.Launch, overlap C.ga_cuda_overlap) (kernels.Launch, error) {
	l, err := d.graph(launches, overlap)
	if err != nil {
		return nil, fmt.Errorf("capture a graph of %d launches: %w", len(launches), err)
	}
	return l, nil
}

func (d *Device) graph(launches []kernels.Launch, overlap C.ga_cuda_overlap) (*Launch, error) {
	if len(launches) == 0 {
		return nil, errors.New("expected at least one")
	}
	window := make([]C.uintptr_t, len(launches))
	overlaps := false
	for i, it := range launches {
		l, ok := it.(*Launch)
		if !ok || l == nil || l.dev != d {
			return nil, fmt.Errorf("launch %d is a %T, not one of %s", i, it, d.spec.ID)
		}
		if l.graph {
			return nil, fmt.Errorf("launch %d is a graph: expected one that is not", i)
		}
		if l.calls() {
			if _, err := d.prime(l); err != nil {
				return nil, err
			}
		}
		overlaps = overlaps || l.overlaps()
		window[i] = C.uintptr_t(uintptr(unsafe.Pointer(l.c)))
	}
	leave, err := d.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	exec, err := d.capture(launches, window, overlap)
	plan := fmt.Sprintf("graph of %d launches", len(launches))
	label := plan
	if err != nil && overlaps && d.lost == nil {
		label += fmt.Sprintf(" without overlap (%v)", err)
		exec, err = d.capture(launches, window, C.GA_OVERLAP_NONE)
	}
	if err != nil {
		return nil, err
	}
	queued := 1
	if overlap == C.GA_OVERLAP_INSIDE {
		queued = len(launches) // blocks of several such graphs have as many launches as others
	}
	s := Step{Enqueue: C.ga_cuda_graph_enqueue, Self: unsafe.Pointer(exec), Launches: queued}
	l, err := d.NewLaunch(label, plan, []Step{s}, launches)
	if err != nil {
		return nil, errors.Join(err, result(C.cuGraphExecDestroy(exec)))
	}
	// Instantiated and uploaded: nothing is left to load.
	l.graph, l.exec, l.Primed = true, unsafe.Pointer(exec), true
	l.Library = func(code int) error { return result(C.CUresult(code)) }
	d.OnClose(l.destroy)
	return l, nil
}

// capture needs the device's context to be current.
func (d *Device) capture(launches []kernels.Launch, window []C.uintptr_t, overlap C.ga_cuda_overlap) (C.CUgraphExec, error) {
	var span C.ga_cuda_span
	var exec C.CUgraphExec
	C.ga_cuda_capture(&window[0], C.int64_t(len(window)), C.CUstream(handle(&d.blocks.stream)), overlap, &exec, &span)
	runtime.KeepAlive(launches)
	return exec, d.spanError(&span, launches)
}

// calls reports whether a launch calls a library; overlaps, whether one of its kernels may begin before its
// predecessor ends.
func (l *Launch) calls() bool { return l.any(func(s *C.ga_cuda_step) bool { return s.enqueue != nil }) }
func (l *Launch) overlaps() bool {
	return l.any(func(s *C.ga_cuda_step) bool { return s.overlap != 0 })
}

func (l *Launch) any(is func(*C.ga_cuda_step) bool) bool {
	first := (*C.ga_cuda_step)(unsafe.Add(unsafe.Pointer(l.c), C.sizeof_ga_cuda_launch))
	steps := unsafe.Slice(first, int(l.c.count))
	for i := range steps {
		if is(&steps[i]) {
			return true
		}
	}
	return false
}

// Close releases a graph's driver resources; the graph must not run afterwards. For other launches it does
// nothing.
func (l *Launch) Close() error {
	if l.exec == nil || l.dev.lost != nil || l.dev.context == (cu.CUContext{}) {
		l.exec = nil // freed together with its context
		return nil
	}
	leave, err := l.dev.Enter()
	if err != nil {
		return err
	}
	defer leave()
	if err := l.destroy(); err != nil {
		return l.dev.failed(err, "destroy a %s", l.Plan)
	}
	return nil
}

// destroy needs the device's context to be current.
func (l *Launch) destroy() error {
	if l.exec == nil {
		return nil
	}
	exec := C.CUgraphExec(l.exec)
	l.exec = nil
	return result(C.cuGraphExecDestroy(exec))
}
