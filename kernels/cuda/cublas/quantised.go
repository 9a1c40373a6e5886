//go:build cuda

package cublas

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// The library has no kernel for integers with scales: it multiplies by the plain elements that
// they stand for, made ahead of all launches. That is what quantised kernels are compared with.

var _ kernels.QuantisedGemm = (*cublas)(nil)

// plain is the problem with plain weights in the place of quantised ones.
func plain(q kernels.QuantisedProblem) (kernels.QuantisedProblem, kernels.Problem, error) {
	q, err := q.Normalized()
	if err != nil {
		return q, kernels.Problem{}, err
	}
	p := q.Problem
	p.LDB = support.PackedLDB(p.DType, p.K)
	return q, p, nil
}

// SupportsQuantised implements [kernels.QuantisedGemm].
func (k *cublas) SupportsQuantised(q kernels.QuantisedProblem) error {
	q, p, err := plain(q)
	switch {
	case err != nil:
		return &kernels.Unsupported{Kernel: k.Name(), DType: q.DType, Reason: err.Error()}
	case k.dev.Arch().CC < 80:
		return &kernels.Unsupported{Kernel: k.Name(), DType: q.DType,
			Reason: fmt.Sprintf("making plain weights of integers needs compute capability 8.0, this GPU has %d.%d", k.dev.Arch().CC/10, k.dev.Arch().CC%10)}
	case q.Weights.Scale != q.DType:
		return &kernels.Unsupported{Kernel: k.Name(), DType: q.DType,
			Reason: fmt.Sprintf("scales are of the activations' type, %s, not %s", q.DType, q.Weights.Scale)}
	}
	return k.Supports(p)
}

// dequantised are weights whose plain elements are their own.
type dequantised struct {
	kernels.Weights
	problem kernels.QuantisedProblem // normalized
	buffer  *driver.Buffer
	seconds float64
}

// Close returns the memory of the plain elements.
func (w *dequantised) Close() error {
	err := w.Weights.Close()
	if closing := w.buffer.Close(); err == nil {
		err = closing
	}
	return err
}

// Detached implements [kernels.Detached]: the integers are no longer read.
func (w *dequantised) Detached() bool { return true }

// Packing implements [kernels.Packed].
func (w *dequantised) Packing() (seconds float64, ok bool) { return w.seconds, true }

// PrepareQuantised makes plain elements of the weights.
func (k *cublas) PrepareQuantised(q kernels.QuantisedProblem, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.SupportsQuantised(q); err != nil {
		return nil, err
	}
	q, p, err := plain(q)
	if err != nil {
		return nil, err
	}
	buffer, seconds, err := k.dev.Form(q, raw, support.PlainBytes(q), support.PlainCall)
	if err != nil {
		return nil, err
	}
	w, err := k.PrepareWeights(p, buffer)
	if err != nil {
		buffer.Close()
		return nil, err
	}
	return &dequantised{Weights: w, problem: q, buffer: buffer, seconds: seconds}, nil
}

// BindQuantised binds the product with the plain elements.
func (k *cublas) BindQuantised(q kernels.QuantisedProblem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := k.SupportsQuantised(q); err != nil {
		return nil, err
	}
	q, p, err := plain(q)
	if err != nil {
		return nil, err
	}
	d, ok := w.(*dequantised)
	if !ok || d == nil {
		return nil, fmt.Errorf("%v: weights are a %T, not prepared by kernel %s", q, w, k.Name())
	}
	if d.problem.Weights != q.Weights {
		return nil, fmt.Errorf("%v: weights were prepared for %v", q, d.problem)
	}
	return k.Bind(p, a, d.Weights, c)
}
