//go:build cuda

package cuda

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

// launched names the kernels that a library launches for l, empty where the driver does
// not tell and before the product has run once.
func (d *Device) launched(l *launch) string {
	if !d.blocks.primed[l.plan] {
		return ""
	}
	leave, err := d.enter()
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
