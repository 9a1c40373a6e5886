//go:build cuda

package cublas

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// The libraries have no kernel for integers with scales. They multiply dequantized elements, made before all
// launches, as the baseline for quantized kernels.

func plain(q kernels.Task) (kernels.Task, kernels.Task, error) {
	q, err := q.Normalized()
	if err != nil {
		return q, kernels.Task{}, err
	}
	p := q
	p.Weights = kernels.WeightFormat{}
	p.LDB = support.PackedLDB(p.DType, p.K)
	return q, p, nil
}

func supportsQuantized(dev *driver.Device, k kernels.Kernel, t kernels.Task) error {
	q, err := t.Product(k.Name(), kernels.QuantizedWeights)
	switch {
	case err != nil:
		return err
	case dev.Arch().CC < 80:
		return t.Unsupported(k.Name(), fmt.Sprintf("making plain weights of integers needs compute capability 8.0, this GPU has %d.%d",
			dev.Arch().CC/10, dev.Arch().CC%10))
	case q.Weights.Scale != q.DType:
		return t.Unsupported(k.Name(), fmt.Sprintf("scales are of the activations' type, %s, not %s", q.DType, q.Weights.Scale))
	}
	_, p, err := plain(q)
	if err != nil {
		return t.Unsupported(k.Name(), err.Error())
	}
	return k.Supports(p)
}

type dequantized struct {
	kernels.Weights
	problem kernels.Task // normalized
	buffer  *driver.Buffer
	seconds float64
}

// Close frees the plain elements.
func (w *dequantized) Close() error {
	err := w.Weights.Close()
	if closing := w.buffer.Close(); err == nil {
		err = closing
	}
	return err
}

// Detached implements [kernels.Detached]: the integers are no longer read.
func (w *dequantized) Detached() bool { return true }

// Packing implements [kernels.Packed].
func (w *dequantized) Packing() (seconds float64, ok bool) { return w.seconds, true }

func prepareQuantized(dev *driver.Device, k kernels.Kernel, q kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	q, p, err := plain(q)
	if err != nil {
		return nil, err
	}
	buffer, seconds, err := dev.Form(q, raw, support.PlainBytes(q), support.PlainCall)
	if err != nil {
		return nil, err
	}
	w, err := k.Prepare(p, buffer)
	if err != nil {
		buffer.Close()
		return nil, err
	}
	return &dequantized{Weights: w, problem: q, buffer: buffer, seconds: seconds}, nil
}

func bindQuantized(dev *driver.Device, k kernels.Kernel, q kernels.Task, a kernels.Operand, w kernels.Weights,
	c kernels.Operand) (kernels.Launch, error) {
	if err := supportsQuantized(dev, k, q); err != nil {
		return nil, err
	}
	q, p, err := plain(q)
	if err != nil {
		return nil, err
	}
	d, ok := w.(*dequantized)
	if !ok || d == nil {
		return nil, fmt.Errorf("%v: weights are a %T, not prepared by kernel %s", q, w, k.Name())
	}
	if d.problem.Weights != q.Weights {
		return nil, fmt.Errorf("%v: weights were prepared for %v", q, d.problem)
	}
	return k.Bind(p, a, d.Weights, c)
}
