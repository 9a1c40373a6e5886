//go:build cuda

package driver

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// scaledWeights are fp8 weights with scales, in place.
type scaledWeights struct {
	problem kernels.Task // normalized; M does not affect the form
	raw     kernels.Buffer
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
	if _, _, err := d.RawScaled(q, raw); err != nil {
		return nil, err
	}
	return &scaledWeights{q, raw}, nil
}

// BindScaled returns the addresses of weights of [Device.KeepScaled] for a normalized problem, and of their scales.
func (d *Device) BindScaled(kernel string, q kernels.Task, w kernels.Weights) (codes, scales uint64, err error) {
	own, ok := w.(*scaledWeights)
	switch {
	case !ok || own == nil:
		return 0, 0, fmt.Errorf("weights are a %T, not prepared by kernel %s", w, kernel)
	case own.problem.N != q.N || own.problem.K != q.K || own.problem.Weights != q.Weights:
		return 0, 0, fmt.Errorf("weights were prepared for %v", own.problem)
	}
	return d.RawScaled(q, own.raw)
}

// RawScaled returns the addresses of a normalized problem's raw fp8 weights and of their scales, after checking that both are
// inside their buffer.
func (d *Device) RawScaled(q kernels.Task, raw kernels.Buffer) (codes, scales uint64, err error) {
	if codes, err = d.Matrix("B", kernels.Operand{Buffer: raw}, q.N, q.K, q.K, q.DType); err != nil {
		return 0, 0, fmt.Errorf("%v: %w", q, err)
	}
	f := q.Weights
	at := kernels.Operand{Buffer: raw, Offset: int(q.Raw().Scales / int64(f.Scale.Size()))}
	groups := planning.DivideUp(q.K, f.GroupK)
	if scales, err = d.Matrix("scales of B", at, planning.DivideUp(q.N, f.GroupN), groups, groups, f.Scale); err != nil {
		return 0, 0, fmt.Errorf("%v: %w", q, err)
	}
	return codes, scales, nil
}

// ActivationScales returns the address of the scales of a normalized problem's activations, 0 if they have none.
func (d *Device) ActivationScales(p kernels.Task, a kernels.Operand) (uint64, error) {
	of, ok := p.ActivationScales()
	if !ok {
		return 0, nil
	}
	at, err := p.ScalesOperand(a)
	if err != nil {
		return 0, err
	}
	return d.Matrix("scales of A", at, of.Groups, p.M, of.LD, of.Type)
}
