//go:build cuda

package driver

import (
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// FusedWeights are the weights of a product and the bias of its epilogue, which begins at a multiple of 256 bytes as a tensor of
// its own does.
type FusedWeights struct {
	kernels.ManyWeights // of the product
	task                kernels.Task
	bias                *Buffer // nil without
}

var _ kernels.Packed = (*FusedWeights)(nil)

// Bytes implements [kernels.Weights].
func (w *FusedWeights) Bytes() int64 {
	bytes := w.ManyWeights.Bytes()
	if w.bias != nil {
		bytes += w.bias.bytes
	}
	return bytes
}

// Close implements [kernels.Weights].
func (w *FusedWeights) Close() error {
	err := w.ManyWeights.Close()
	if w.bias != nil {
		err = errors.Join(err, w.bias.Close())
	}
	return err
}

// Packing implements [kernels.Packed].
func (w *FusedWeights) Packing() (seconds float64, ok bool) {
	if p, packs := w.Of[0].(kernels.Packed); packs {
		return p.Packing()
	}
	return 0, false
}

// KeepFused joins the prepared weights of a fused product with a copy of its bias. It owns the weights, also on failure.
func (d *Device) KeepFused(t kernels.Task, raw kernels.Buffer, product kernels.Weights) (*FusedWeights, error) {
	w := &FusedWeights{task: t, ManyWeights: kernels.ManyWeights{Of: []kernels.Weights{product}}}
	if !t.Epilogue.HasBias() {
		return w, nil
	}
	fail := func(err error) (*FusedWeights, error) {
		return nil, errors.Join(fmt.Errorf("%v: copy the bias: %w", t, err), w.Close())
	}
	bits := make([]byte, t.N*t.DType.Size())
	if err := raw.Download(t.BiasAt(), bits); err != nil {
		return fail(err)
	}
	b, err := d.alloc(int64(len(bits)))
	if err != nil {
		return fail(err)
	}
	w.bias = b
	if err := b.Upload(0, bits); err != nil {
		return fail(err)
	}
	return w, nil
}

// BindFused returns the product's weights and the address of the bias, 0 without.
func (d *Device) BindFused(kernel string, t kernels.Task, w kernels.Weights) (product kernels.Weights, bias uint64, err error) {
	own, ok := w.(*FusedWeights)
	switch {
	case !ok || own == nil:
		return nil, 0, fmt.Errorf("%v: weights are a %T, not prepared by kernel %s", t, w, kernel)
	case own.task.N != t.N || own.task.K != t.K || own.task.Epilogue != t.Epilogue || own.task.DType != t.DType:
		return nil, 0, fmt.Errorf("%v: weights were prepared for %v", t, own.task)
	case own.bias == nil:
		return own.Of[0], 0, nil
	case own.bias.dev != d || own.bias.Address == 0:
		return nil, 0, fmt.Errorf("%v: weights are closed, or of another device", t)
	}
	return own.Of[0], own.bias.Address, nil
}
