package cpu

/*
#include "native/strips.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() {
	constructors[slotRounded] = func(d *Device) (kernels.Kernel, *kernels.Missing) {
		if C.ga_strips_for(d.isa()) == nil {
			return nil, &kernels.Missing{Name: roundedName, Reason: "it needs AVX2"}
		}
		return &rounded{d}, nil
	}
}

const roundedName = "int8-activations"

// rounded multiplies 4-bit weights by activations that it rounds to 8 bits, each 32 with their own scale. It is a
// choice of the user: no other kernel uses it.
type rounded struct{ dev *Device }

var _ kernels.ActivationRounder = (*rounded)(nil)

// roundedWeights are in strips also where other kernels have bf16 dot products.
type roundedWeights struct{ quantizedWeights }

func (w *roundedWeights) integers() *quantizedWeights { return &w.quantizedWeights }

// Copy implements [kernels.Copyable].
func (w *roundedWeights) Copy(b kernels.Buffer) (kernels.Weights, error) {
	c, err := w.quantizedWeights.Copy(b)
	if err != nil {
		return nil, err
	}
	return &roundedWeights{*c.(*quantizedWeights)}, nil
}

func (*rounded) Name() string { return roundedName }

func (*rounded) Describe() string {
	return "4-bit weights by activations that are rounded to 8 bits, 32 of them with a scale"
}

func (k *rounded) Supports(t kernels.Task) error {
	t, err := k.dev.supports(k.Name(), t, kernels.QuantizedWeights)
	switch {
	case err != nil:
		return err
	case !t.Quantized() || t.Scaled() || t.Weights.Bits != 4 || t.DType == kernels.FP32:
		return t.Unsupported(k.Name(), "expected 4-bit weights and activations of fp16 or bf16")
	}
	if g := k.sizes(t); C.ga_strips_fit(&g) == 0 {
		return t.Unsupported(k.Name(), fmt.Sprintf("rows of k %d do not fit next to the weights", t.K))
	}
	return nil
}

func (k *rounded) sizes(t kernels.Task) C.ga_gemm {
	g := k.dev.quantizedSizes(t)
	g.weights.form, g.weights.few, g.weights.limbs = unsafe.Pointer(k.form()), nil, 1
	return g
}

func (k *rounded) form() *C.ga_form { return C.ga_strips_for(k.dev.isa()) }

// RoundsActivations implements [kernels.ActivationRounder].
func (*rounded) RoundsActivations(kernels.Task) bool { return true }

// ScalesSums implements [kernels.SumScaler].
func (*rounded) ScalesSums(kernels.Task) bool { return true }

// Packs implements [kernels.Packer].
func (*rounded) Packs(kernels.Task) bool { return true }

func (k *rounded) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	q, err := t.Normalized()
	if err != nil {
		return nil, err
	}
	w, err := k.dev.packIntegers(q, k.sizes(q), raw)
	if err != nil {
		return nil, err
	}
	return &roundedWeights{*w}, nil
}

func (k *rounded) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	g, q, err := joinQuantized[*roundedWeights](k.dev, k.Name(), t, a, w, c)
	if err != nil {
		return nil, err
	}
	g.weights = k.sizes(q).weights
	l := kernelLaunch(C.ga_kernel(C.ga_strips), g, k.dev.threadsOf(q), "", a.Buffer, w, c.Buffer)
	l.tiling = k.tiling(q)
	return l, nil
}

func (k *rounded) tiling(q kernels.Task) kernels.Tiling {
	form := k.form()
	rows := divideUp(q.M, divideUp(q.M, int(form.code.rounded_rows)))
	return kernels.Tiling{Tile: [3]int{rows, int(form.strip), C.GA_BLOCK_K}, Split: 1}
}

// Choice implements [kernels.Kernel].
func (k *rounded) Choice(t kernels.Task) (kernels.Choice, error) { return plannedChoice(k, t) }
