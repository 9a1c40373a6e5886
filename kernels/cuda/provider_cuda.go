//go:build cuda

package cuda

// #include "trampoline/driver.h"
import "C"

import (
	"fmt"
	"strings"

	"gorgonia.org/cu"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// driverProblem opens the driver at the first call and returns why it can't be
// used, empty when it can.
func driverProblem() string {
	if reason := C.ga_cuda_open(); reason != nil {
		return C.GoString(reason)
	}
	return ""
}

// Open opens every GPU of the driver.
func (Provider) Open() ([]kernels.Device, []kernels.Missing) {
	if reason := driverProblem(); reason != "" {
		return missing(reason, C.ga_cuda_broken() != 0)
	}
	count, err := cu.NumDevices()
	switch {
	case err != nil:
		return missing(fmt.Sprintf("the driver does not count its GPUs: %v", driver(err)), true)
	case count == 0:
		return missing("the driver has no GPU to offer; CUDA_VISIBLE_DEVICES may hide them", false)
	}
	var devices []kernels.Device
	var missing []kernels.Missing
	for i := range count {
		d, err := openDevice(i)
		if err != nil {
			missing = append(missing, kernels.Missing{Name: deviceID(i), Reason: strings.TrimPrefix(err.Error(), deviceID(i)+": "), Broken: true})
			continue
		}
		devices = append(devices, d)
	}
	return devices, missing
}

func deviceID(ordinal int) string { return fmt.Sprintf("cuda:%d", ordinal) }
