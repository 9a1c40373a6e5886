//go:build cuda

package cuda

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
)

// Open opens every GPU of the driver.
func (p Provider) Open() ([]kernels.Device, []kernels.Missing) {
	if reason := driver.Unusable(); reason != "" {
		return missing(reason, driver.Broken())
	}
	count, err := driver.Count()
	switch {
	case err != nil:
		return missing(fmt.Sprintf("the driver does not count its GPUs: %v", err), true)
	case count == 0:
		return missing("the driver has no GPU to offer; CUDA_VISIBLE_DEVICES may hide them", false)
	}
	var devices []kernels.Device
	var missing []kernels.Missing
	for i := range count {
		d, err := openDevice(i, p)
		if err != nil {
			missing = append(missing, kernels.Missing{Name: driver.ID(i), Reason: err.Error(), Broken: true})
			continue
		}
		devices = append(devices, d)
	}
	return devices, missing
}
