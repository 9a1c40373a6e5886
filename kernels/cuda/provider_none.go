//go:build !cuda

package cuda

import "github.com/gemmaudit/gemmaudit/kernels"

// Open reports that this build has no GPU support.
func (Provider) Open() ([]kernels.Device, []kernels.Missing) {
	return missing("this program was built without GPU support: `make` builds it with", false)
}
