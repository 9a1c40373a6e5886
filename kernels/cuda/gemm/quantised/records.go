//go:build cuda

package quantised

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
)

// Records returns the normalized problem of packed weights (M does not affect them) and their address. ok is
// false for weights that this package did not prepare; the error says why they can't be read on d.
func Records(d *driver.Device, w kernels.Weights) (q kernels.Task, address uint64, ok bool, err error) {
	packed, ok := w.(*records)
	switch {
	case !ok || packed == nil:
		return q, 0, false, nil
	case packed.dev != d:
		return q, 0, true, fmt.Errorf("weights belong to %s, not to %s", packed.dev.Spec().ID, d.Spec().ID)
	case packed.buffer.Address == 0:
		return q, 0, true, fmt.Errorf("weights are closed")
	}
	return packed.problem, packed.buffer.Address, true, nil
}
