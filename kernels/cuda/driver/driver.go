//go:build cuda

package driver

// #include "trampoline/driver.h"
import "C"

import (
	"fmt"

	"gorgonia.org/cu"
)

// Unusable opens the driver at the first call and returns why it can't be
// used, empty when it can.
func Unusable() string {
	if reason := C.ga_cuda_open(); reason != nil {
		return C.GoString(reason)
	}
	return ""
}

// Broken says whether there is a driver that does not work, rather than none.
func Broken() bool { return C.ga_cuda_broken() != 0 }

// Count is the number of GPUs that the driver offers.
func Count() (int, error) {
	n, err := cu.NumDevices()
	return n, driver(err)
}

// ID names the GPU of that number: "cuda:0".
func ID(ordinal int) string { return fmt.Sprintf("cuda:%d", ordinal) }
