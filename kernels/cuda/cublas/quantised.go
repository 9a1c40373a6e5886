//go:build cuda

package cublas

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// The libraries have no kernel for integers with scales: they multiply by the plain elements that
// these stand for, made ahead of all launches. That is what quantised kernels are compared with.

var (
	_ kernels.QuantisedGemm = (*cublas)(nil)
	_ kernels.QuantisedGemm = (*cublasLtChoice)(nil)
)

// SupportsQuantised implements [kernels.QuantisedGemm].
func (k *cublas) SupportsQuantised(q kernels.QuantisedProblem) error {
	return supportsQuantised(k.dev, k, q)
}

// PrepareQuantised makes plain elements of the weights.
func (k *cublas) PrepareQuantised(q kernels.QuantisedProblem, raw kernels.Buffer) (kernels.Weights, error) {
	return prepareQuantised(k.dev, k, q, raw)
}

// BindQuantised binds the product with the plain elements.
func (k *cublas) BindQuantised(q kernels.QuantisedProblem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	return bindQuantised(k.dev, k, q, a, w, c)
}

// SupportsQuantised implements [kernels.QuantisedGemm].
func (k *cublasLtChoice) SupportsQuantised(q kernels.QuantisedProblem) error {
	return supportsQuantised(k.dev, k, q)
}

// PrepareQuantised makes plain elements of the weights.
func (k *cublasLtChoice) PrepareQuantised(q kernels.QuantisedProblem, raw kernels.Buffer) (kernels.Weights, error) {
	return prepareQuantised(k.dev, k, q, raw)
}

// BindQuantised binds the product with the plain elements.
func (k *cublasLtChoice) BindQuantised(q kernels.QuantisedProblem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	return bindQuantised(k.dev, k, q, a, w, c)
}

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

// supportsQuantised says whether a library's kernel takes the plain problem, and the device makes its weights.
func supportsQuantised(dev *driver.Device, k kernels.Gemm, q kernels.QuantisedProblem) error {
	q, p, err := plain(q)
	switch {
	case err != nil:
		return &kernels.Unsupported{Kernel: k.Name(), DType: q.DType, Reason: err.Error()}
	case dev.Arch().CC < 80:
		return &kernels.Unsupported{Kernel: k.Name(), DType: q.DType,
			Reason: fmt.Sprintf("making plain weights of integers needs compute capability 8.0, this GPU has %d.%d", dev.Arch().CC/10, dev.Arch().CC%10)}
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

func prepareQuantised(dev *driver.Device, k kernels.Gemm, q kernels.QuantisedProblem, raw kernels.Buffer) (kernels.Weights, error) {
	if err := supportsQuantised(dev, k, q); err != nil {
		return nil, err
	}
	q, p, err := plain(q)
	if err != nil {
		return nil, err
	}
	buffer, seconds, err := dev.Form(q, raw, support.PlainBytes(q), support.PlainCall)
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

func bindQuantised(dev *driver.Device, k kernels.Gemm, q kernels.QuantisedProblem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := supportsQuantised(dev, k, q); err != nil {
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
