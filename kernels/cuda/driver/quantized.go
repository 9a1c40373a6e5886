//go:build cuda

package driver

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
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
	if seconds, err = d.Timed(call(d.arch, q, b.Address, form.Address)); err != nil {
		form.Close()
		return nil, 0, fmt.Errorf("%v: pack weights: %w", q, err)
	}
	return form, seconds, nil
}

// Records are quantized weights in the form of our kernels.
type Records struct {
	Problem kernels.Task // normalized; M does not affect the form
	Address uint64

	dev     *Device
	buffer  *Buffer
	seconds float64
}

// Bytes returns the bytes of B that a launch reads.
func (w *Records) Bytes() int64 { return w.buffer.Bytes() }

// Close frees the records.
func (w *Records) Close() error { return w.buffer.Close() }

// Detached implements [kernels.Detached]: the raw weights are no longer read.
func (w *Records) Detached() bool { return true }

// Packing implements [kernels.Packed].
func (w *Records) Packing() (seconds float64, ok bool) { return w.seconds, true }

// PackRecords packs raw weights into records.
func (d *Device) PackRecords(q kernels.Task, raw kernels.Buffer) (*Records, error) {
	q, err := q.Normalized()
	if err != nil {
		return nil, err
	}
	buffer, seconds, err := d.Form(q, raw, support.RecordsBytes(q), support.RecordsCall)
	if err != nil {
		return nil, err
	}
	return &Records{Problem: q, Address: buffer.Address, dev: d, buffer: buffer, seconds: seconds}, nil
}

// Records returns weights of [Device.PackRecords]; ok is false for others. The error says why they can't be
// read here.
func (d *Device) Records(w kernels.Weights) (r *Records, ok bool, err error) {
	r, ok = w.(*Records)
	switch {
	case !ok || r == nil:
		return nil, false, nil
	case r.dev != d:
		return nil, true, fmt.Errorf("weights belong to %s, not to %s", r.dev.spec.ID, d.spec.ID)
	case r.buffer.Address == 0:
		return nil, true, fmt.Errorf("weights are closed")
	}
	return r, true, nil
}

// BindRecords checks records against the normalized problem of a kernel.
func (d *Device) BindRecords(kernel string, q kernels.Task, w kernels.Weights) (*Records, error) {
	r, ok, err := d.Records(w)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("weights are a %T, not packed by kernel %s", w, kernel)
	case r.Problem.N != q.N || r.Problem.K != q.K || r.Problem.Weights != q.Weights:
		return nil, fmt.Errorf("weights were packed for %v", r.Problem)
	}
	return r, nil
}
