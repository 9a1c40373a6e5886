//go:build cuda

package driver

// #include "kernelname.h"
import "C"

import (
	"runtime"
	"strings"
	"unsafe"
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
	leave, err := d.Enter()
	if err != nil {
		return ""
	}
	defer leave()
	text := (*C.char)(C.malloc(symbolBytes))
	defer C.free(unsafe.Pointer(text))
	n := C.ga_cuda_kernel_symbols(l.c, C.CUstream(handle(&d.blocks.stream)), text, symbolBytes)
	runtime.KeepAlive(l)
	if n == 0 {
		return ""
	}
	return kernelNames(strings.Fields(C.GoString(text)))
}
