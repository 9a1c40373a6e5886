//go:build cuda

package driver

/*
#include <stdlib.h>
#include "execute.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
	"github.com/gemmaudit/gemmaudit/kernels/worker"
)

var _ kernels.LaunchCopier = (*Device)(nil)

// copyVector is the granularity of our copy kernel for addresses and sizes.
const copyVector = 16

// BindCopy implements [kernels.LaunchCopier]: by our kernel, or by the driver if the bytes are not whole
// vectors.
func (d *Device) BindCopy(to kernels.Buffer, toOffset int64, from kernels.Buffer, fromOffset, bytes int64) (kernels.Launch, error) {
	target, err := d.stretch("copy to", to, toOffset, bytes)
	if err != nil {
		return nil, err
	}
	source, err := d.stretch("copy from", from, fromOffset, bytes)
	if err != nil {
		return nil, err
	}
	if target < source+uint64(bytes) && source < target+uint64(bytes) {
		return nil, fmt.Errorf("copy %d bytes from byte %d to byte %d of one buffer: they overlap", bytes, fromOffset, toOffset)
	}
	var l *Launch
	if (target|source|uint64(bytes))%copyVector == 0 {
		l, err = d.NewLaunch("copy", "copy rows", Steps([]planning.Call{support.CopyCall(d.arch, source, target, bytes)}), to, from)
	} else {
		l, err = d.driverCopy(target, source, bytes, to, from)
	}
	if err != nil {
		return nil, err
	}
	l.copies = worker.Copy{To: to.(*Buffer), ToOffset: toOffset, From: from.(*Buffer), FromOffset: fromOffset, Bytes: bytes}
	return l, nil
}

// CopyOf returns what a launch of [Device.BindCopy] copies; false for other launches.
func CopyOf(of kernels.Launch) (worker.Copy, bool) {
	l, ok := of.(*Launch)
	if !ok || l.copies.To == nil {
		return worker.Copy{}, false
	}
	return l.copies, true
}

func (d *Device) driverCopy(to, from uint64, bytes int64, keep ...any) (*Launch, error) {
	own := (*C.ga_cuda_copy)(C.malloc(C.sizeof_ga_cuda_copy))
	*own = C.ga_cuda_copy{dst: C.CUdeviceptr(to), src: C.CUdeviceptr(from), bytes: C.size_t(bytes)}
	l, err := d.NewLaunch("driver's copy", "copy memory", []Step{{Enqueue: C.ga_cuda_copy_enqueue, Self: unsafe.Pointer(own), Launches: 1}},
		keep...)
	if err != nil {
		C.free(unsafe.Pointer(own))
		return nil, err
	}
	runtime.AddCleanup(l, func(own *C.ga_cuda_copy) { C.free(unsafe.Pointer(own)) }, own)
	l.Library = func(code int) error { return result(C.CUresult(code)) }
	return l, nil
}

func (d *Device) stretch(verb string, b kernels.Buffer, offset, bytes int64) (uint64, error) {
	own, ok := b.(*Buffer)
	switch {
	case !ok || own == nil || own.dev != d:
		return 0, fmt.Errorf("%s a %T, not a buffer of %s", verb, b, d.spec.ID)
	case own.Address == 0:
		return 0, fmt.Errorf("%s a buffer of %d bytes: it is closed", verb, own.bytes)
	case offset < 0 || bytes < 1 || offset > own.bytes || bytes > own.bytes-offset:
		return 0, fmt.Errorf("%s bytes %d to %d of a buffer of %d", verb, offset, offset+bytes, own.bytes)
	}
	return own.Address + uint64(offset), nil
}
