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

// symbolBytes is the space for the symbols of a call; C++ names may have several hundred bytes.
const symbolBytes = 4096

// KernelNames returns the kernels that a library launches for l, read once for a plan. It is empty before the
// first run, or if the driver does not report names.
func (d *Device) KernelNames(l *Launch) string {
	if name := d.blocks.names[l.Plan]; name != "" || !d.blocks.primed[l.Plan] {
		return name
	}
	captured, err := d.Capture(l)
	if err != nil {
		return ""
	}
	d.blocks.names[l.Plan] = captured.Names
	return captured.Names
}

// Captured is a library's launch for a call.
type Captured struct {
	// Names are the kernels' names, empty if the driver (before 12.3) does not report them.
	Names string
	// Grid and Cluster are the first kernel's shapes in blocks, zero if unknown.
	Grid, Cluster [3]int
	// PerSM is its resident blocks per multiprocessor, 0 if unknown.
	PerSM int
}

// Capture reads a library's launch for l from a graph that never runs: the addresses of l are not accessed.
// The error is the library's or the driver's; both may refuse if the library has not loaded its code.
func (d *Device) Capture(l *Launch) (Captured, error) { return d.captureOn(&d.blocks.stream, l) }

// CaptureStream is a stream for captures only. Several can be used concurrently, each by one goroutine.
type CaptureStream struct {
	dev    *Device
	stream cu.Stream
}

// NewCaptureStream creates a stream, which is destroyed when the device is closed.
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
