//go:build cuda

package driver

// #include "trampoline/driver.h"
import "C"

import (
	"fmt"

	"gorgonia.org/cu"
)

// Unusable opens the driver at the first call and returns why it can't be used, or "".
func Unusable() string {
	if reason := C.ga_cuda_open(); reason != nil {
		return C.GoString(reason)
	}
	return ""
}

// Broken reports whether a driver is present but does not work.
func Broken() bool { return C.ga_cuda_broken() != 0 }

// Count returns the number of GPUs of the driver.
func Count() (int, error) {
	n, err := cu.NumDevices()
	return n, driver(err)
}

// ID returns the name of the GPU of that number: "cuda:0".
func ID(ordinal int) string { return fmt.Sprintf("cuda:%d", ordinal) }
