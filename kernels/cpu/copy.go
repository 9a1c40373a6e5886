package cpu

/*
#include "native/copy.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/worker"
)

var _ kernels.LaunchCopier = (*Device)(nil)

// BindCopy implements [kernels.LaunchCopier]; all threads share the copy.
func (d *Device) BindCopy(to kernels.Buffer, toOffset int64, from kernels.Buffer, fromOffset, bytes int64) (kernels.Launch, error) {
	target, err := d.stretch("to", to, toOffset, bytes)
	if err != nil {
		return nil, err
	}
	source, err := d.stretch("from", from, fromOffset, bytes)
	if err != nil {
		return nil, err
	}
	if to == from && toOffset < fromOffset+bytes && fromOffset < toOffset+bytes {
		return nil, fmt.Errorf("copy %d bytes from byte %d to byte %d of one buffer: they overlap", bytes, fromOffset, toOffset)
	}
	l := kernelLaunch(C.ga_kernel(C.ga_copy_kernel), C.ga_gemm{a: source, c: target, k: C.int64_t(bytes)}, d.Threads(), "copy", to, from)
	l.copies = worker.Copy{To: to.(*Buffer), ToOffset: toOffset, From: from.(*Buffer), FromOffset: fromOffset, Bytes: bytes}
	return l, nil
}

func (d *Device) stretch(name string, b kernels.Buffer, offset, bytes int64) (unsafe.Pointer, error) {
	own, ok := b.(*Buffer)
	switch {
	case !ok || own == nil:
		return nil, fmt.Errorf("copy %s a %T, not a buffer of %s", name, b, d.spec.ID)
	case own.data == nil:
		return nil, fmt.Errorf("copy %s a buffer that is closed", name)
	case offset < 0 || bytes < 1 || offset > own.bytes || bytes > own.bytes-offset:
		return nil, fmt.Errorf("copy %s bytes %d to %d of a buffer of %d", name, offset, offset+bytes, own.bytes)
	}
	return unsafe.Add(own.data, offset), nil
}
