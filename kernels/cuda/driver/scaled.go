//go:build cuda

package driver

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// scaledWeights are fp8 weights with scales, in place.
type scaledWeights struct {
	problem kernels.Task // normalized; M does not affect the form
	raw     *Buffer
}

// Bytes returns the bytes of B that a launch reads.
func (w *scaledWeights) Bytes() int64 { return w.problem.Raw().Bytes }

// Close does nothing: the caller owns the raw B.
func (w *scaledWeights) Close() error { return nil }

// KeepScaled returns fp8 weights with scales that are used in place.
func (d *Device) KeepScaled(q kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	q, err := q.Normalized()
	if err != nil {
		return nil, err
	}
	b, ok := raw.(*Buffer)
	switch need := q.Raw().Bytes; {
	case !ok || b == nil:
		return nil, fmt.Errorf("%v: raw weights are in a %T, not in a buffer of %s", q, raw, d.spec.ID)
	case b.dev != d:
		return nil, fmt.Errorf("%v: raw weights belong to %s, not to %s", q, b.dev.spec.ID, d.spec.ID)
	case b.bytes < need:
		return nil, fmt.Errorf("%v: raw weights take %d bytes, the buffer has %d", q, need, b.bytes)
	}
	return &scaledWeights{q, b}, nil
}

// BindScaled returns the addresses of weights of [Device.KeepScaled] for a normalized problem, and of their scales.
func (d *Device) BindScaled(kernel string, q kernels.Task, w kernels.Weights) (codes, scales uint64, err error) {
	own, ok := w.(*scaledWeights)
	switch {
	case !ok || own == nil:
		return 0, 0, fmt.Errorf("weights are a %T, not prepared by kernel %s", w, kernel)
	case own.raw.Address == 0:
		return 0, 0, fmt.Errorf("the buffer of the weights is closed")
	case own.problem.N != q.N || own.problem.K != q.K || own.problem.Weights != q.Weights:
		return 0, 0, fmt.Errorf("weights were prepared for %v", own.problem)
	}
	return own.raw.Address, own.raw.Address + uint64(q.Raw().Scales), nil
}

// ActivationScales returns the address of the scales of a normalized problem's activations, 0 if they have none.
func (d *Device) ActivationScales(p kernels.Task, a kernels.Operand) (uint64, error) {
	of, ok := p.ActivationScales()
	if !ok {
		return 0, nil
	}
	at := int64(a.Offset)*int64(p.DType.Size()) + int64(of.At)
	size := int64(of.Type.Size())
	if at%size != 0 {
		return 0, fmt.Errorf("scales of A begin at byte %d of its buffer, expected a multiple of %d", at, size)
	}
	return d.Matrix("A's scales", kernels.Operand{Buffer: a.Buffer, Offset: int(at / size)}, of.Groups, p.M, of.LD, of.Type)
}
