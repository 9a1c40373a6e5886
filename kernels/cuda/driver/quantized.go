//go:build cuda

package driver

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Form converts the raw weights of a normalized problem into a form of the given bytes. call receives the raw
// address and the form's. seconds is the time on the device.
func (d *Device) Form(q kernels.Task, raw kernels.Buffer, bytes int64,
	call func(a planning.Arch, q kernels.Task, raw, form uint64) planning.Call) (form *Buffer, seconds float64, err error) {
	b, ok := raw.(*Buffer)
	switch need := q.Raw().Bytes; {
	case !ok || b == nil:
		return nil, 0, fmt.Errorf("%v: raw weights are in a %T, not in a buffer of %s", q, raw, d.spec.ID)
	case b.dev != d:
		return nil, 0, fmt.Errorf("%v: raw weights belong to %s, not to %s", q, b.dev.spec.ID, d.spec.ID)
	case b.Address == 0:
		return nil, 0, fmt.Errorf("%v: the buffer of the raw weights is closed", q)
	case b.bytes < need:
		return nil, 0, fmt.Errorf("%v: raw weights take %d bytes, the buffer has %d", q, need, b.bytes)
	}
	if form, err = d.alloc(bytes); err != nil {
		return nil, 0, fmt.Errorf("%v: pack weights: %w", q, err)
	}
	if seconds, err = d.timed(call(d.arch, q, b.Address, form.Address)); err != nil {
		form.Close()
		return nil, 0, fmt.Errorf("%v: pack weights: %w", q, err)
	}
	return form, seconds, nil
}
