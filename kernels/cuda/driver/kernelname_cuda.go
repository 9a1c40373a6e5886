//go:build cuda

package driver

// #include "kernelname.h"
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"gorgonia.org/cu"
)

// symbolBytes is room for the symbols of a call, some of which are C++ names of a few
// hundred bytes.
const symbolBytes = 4096

// KernelNames names the kernels that a library launches for l, empty where the driver does
// not tell and before the product has run once.
func (d *Device) KernelNames(l *Launch) string {
	if !d.blocks.primed[l.Plan] {
		return ""
	}
	captured, err := d.Capture(l)
	if err != nil {
		return ""
	}
	return captured.Names
}

// Captured is what a library launches for a call.
type Captured struct {
	// Names are those of its kernels, empty where the driver (before 12.3) does not tell.
	Names string
	// Grid and Cluster are the shapes of the first kernel's launch in blocks, zeros for what
	// is not known.
	Grid, Cluster [3]int
	// PerSM is how many of its blocks a multiprocessor runs at the same time, 0 unknown.
	PerSM int
}

// Capture reads what a library launches for l from a graph that never runs: nothing is
// read or written at the addresses of l. The error is the library's, or the driver's; where
// the library has not loaded its code yet, both may refuse.
func (d *Device) Capture(l *Launch) (Captured, error) { return d.captureOn(&d.blocks.stream, l) }

// CaptureStream is a stream for captures alone: several can be used at once, each by one goroutine.
type CaptureStream struct {
	dev    *Device
	stream cu.Stream
}

// NewCaptureStream makes one, which is destroyed when the device is closed.
func (d *Device) NewCaptureStream() (*CaptureStream, error) {
	leave, err := d.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	s := &CaptureStream{dev: d}
	if s.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return nil, d.failed(driver(err), "create a stream")
	}
	d.OnClose(func() error { return driver(s.stream.Destroy()) })
	return s, nil
}

// Capture is [Device.Capture] on the stream.
func (s *CaptureStream) Capture(l *Launch) (Captured, error) { return s.dev.captureOn(&s.stream, l) }

func (d *Device) captureOn(on *cu.Stream, l *Launch) (Captured, error) {
	leave, err := d.Enter()
	if err != nil {
		return Captured{}, err
	}
	defer leave()
	text := (*C.char)(C.malloc(symbolBytes))
	defer C.free(unsafe.Pointer(text))
	found := C.ga_cuda_kernel_symbols(l.c, C.CUstream(handle(on)), text, symbolBytes)
	runtime.KeepAlive(l)
	switch {
	case found.library != 0 && l.Library != nil:
		return Captured{}, l.Library(int(found.library))
	case found.library != 0:
		return Captured{}, fmt.Errorf("capture a call: code %d", int(found.library))
	case found.code != C.CUDA_SUCCESS:
		return Captured{}, fmt.Errorf("capture a call: %w", result(found.code))
	case found.kernels == 0:
		return Captured{}, nil
	}
	c := Captured{Names: kernelNames(strings.Fields(C.GoString(text))), PerSM: int(found.per_sm)}
	for i := range c.Grid {
		c.Grid[i], c.Cluster[i] = int(found.grid[i]), int(found.cluster[i])
	}
	return c, nil
}
