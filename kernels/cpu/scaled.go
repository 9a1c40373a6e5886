package cpu

/*
#include "native/scaled.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() { constructors[slotScaled] = newScaled }

// scaled multiplies fp8 with scales. Weights are decoded in slices that stay in cache.
type scaled struct {
	dev  *Device
	form *C.ga_scaled_form
}

func newScaled(d *Device) (kernels.Kernel, *kernels.Missing) {
	return &scaled{d, C.ga_scaled_form_for(d.isa())}, nil
}

func (*scaled) Name() string { return "scaled" }

func (k *scaled) Describe() string {
	return "fp8 with scales, decoded in cache: " + C.GoString(k.form.path.name)
}

func (k *scaled) Supports(t kernels.Task) error {
	n, err := k.dev.supportsScaled(k.Name(), t)
	if err != nil {
		return err
	}
	if g := k.sizes(n); C.ga_scaled_fits(&g) == 0 {
		return t.Unsupported(k.Name(), fmt.Sprintf("a row of k %d does not fit next to the weights", t.K))
	}
	return nil
}

// supportsScaled is supports for a kernel of fp8 with scales only.
func (d *Device) supportsScaled(kernel string, t kernels.Task) (kernels.Task, error) {
	if t.Operation.IsProduct() && !t.Quantized() {
		return t, t.Unsupported(kernel, "it takes fp8 weights with scales")
	}
	return d.supports(kernel, t, kernels.ScaledWeights)
}

// sizes returns a normalized task with the format of its weights.
func (k *scaled) sizes(t kernels.Task) C.ga_gemm {
	g := scaledSizes(t)
	g.weights.form = unsafe.Pointer(k.form)
	return g
}

func scaledSizes(t kernels.Task) C.ga_gemm {
	g := sizes(t)
	g.dtype = C.GA_FP8
	g.weights = C.ga_weights{bits: 8, group: C.int64_t(t.Weights.GroupK), columns: C.int64_t(t.Weights.GroupN), scale: C.GA_FP32}
	return g
}

// scaledWeights are packed fp8 weights with their scales.
type scaledWeights struct{ quantizedWeights }

// Copy implements [kernels.Copyable].
func (w *scaledWeights) Copy(b kernels.Buffer) (kernels.Weights, error) {
	c, err := w.quantizedWeights.Copy(b)
	if err != nil {
		return nil, err
	}
	return &scaledWeights{*c.(*quantizedWeights)}, nil
}

// rawScaled returns the codes and scales of raw weights.
func rawScaled(t kernels.Task, raw kernels.Buffer) (codes, scales unsafe.Pointer, err error) {
	at := t.Raw()
	b, ok := raw.(*Buffer)
	switch {
	case !ok || b == nil:
		return nil, nil, fmt.Errorf("%v: raw weights are a %T, not a buffer of the CPU", t, raw)
	case b.data == nil:
		return nil, nil, fmt.Errorf("%v: the buffer of raw weights is closed", t)
	case b.bytes < at.Bytes:
		return nil, nil, fmt.Errorf("%v: raw weights take %d bytes, the buffer has %d", t, at.Bytes, b.bytes)
	}
	return b.data, unsafe.Add(b.data, at.Scales), nil
}

func (k *scaled) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	t, err := t.Normalized()
	if err != nil {
		return nil, err
	}
	codes, scales, err := rawScaled(t, raw)
	if err != nil {
		return nil, err
	}
	g := k.sizes(t)
	packed, err := k.dev.alloc(int64(C.ga_scaled_bytes(&g)))
	if err != nil {
		return nil, fmt.Errorf("%v: pack weights: %w", t, err)
	}
	began := time.Now()
	C.ga_scaled_pack(k.dev.pool.c, &g, codes, scales, packed.data)
	return &scaledWeights{quantizedWeights{problem: t, packed: packed, seconds: time.Since(began).Seconds()}}, nil
}

// joinScaled is join for fp8 with scales, with the scales of A.
func joinScaled[W ownWeights](d *Device, kernel string, t kernels.Task, a kernels.Operand, w kernels.Weights,
	c kernels.Operand) (C.ga_gemm, kernels.Task, W, error) {
	g, t, own, err := join[W](d, kernel, t, a, w, c)
	if err != nil {
		return g, t, own, err
	}
	of, ok := t.ActivationScales()
	if !ok {
		return g, t, own, errors.New("activations have no scales")
	}
	at, err := t.ScalesOperand(a)
	if err != nil {
		return g, t, own, fmt.Errorf("%v: %w", t, err)
	}
	scales, err := d.matrix("scales of A", at, of.Groups, t.M, of.LD, of.Type)
	if err != nil {
		return g, t, own, fmt.Errorf("%v: %w", t, err)
	}
	more := scaledSizes(t)
	g.dtype, g.weights, g.a_scales, g.a_scales_ld = more.dtype, more.weights, (*C.float)(scales), C.int64_t(of.LD)
	return g, t, own, nil
}

// Packs implements [kernels.Packer].
func (k *scaled) Packs(kernels.Task) bool { return true }

// Bind implements [kernels.Kernel].
func (k *scaled) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	g, q, own, err := joinScaled[*scaledWeights](k.dev, k.Name(), t, a, w, c)
	if err != nil {
		return nil, err
	}
	if own.problem.Weights != q.Weights {
		return nil, fmt.Errorf("%v: weights were packed as %v", q, own.problem.Weights)
	}
	g.b, g.weights.form = own.packed.data, unsafe.Pointer(k.form)
	l := kernelLaunch(C.ga_kernel(C.ga_scaled), g, k.dev.threadsOf(q), "", a.Buffer, w, c.Buffer)
	l.tiling = k.tiling(q)
	return l, nil
}

func (k *scaled) tiling(t kernels.Task) kernels.Tiling {
	rows := int(k.form.path.rows)
	return kernels.Tiling{Tile: [3]int{divideUp(t.M, divideUp(t.M, rows)), panelColumns, int(k.form.path.group)}, Split: 1}
}

// Choice implements [kernels.Kernel].
func (k *scaled) Choice(t kernels.Task) (kernels.Choice, error) { return plannedChoice(k, t) }

// prepareScaled leaves raw weights in place.
func (k naive) prepareScaled(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	t, err := k.dev.supports(k.Name(), t, kernels.ScaledWeights)
	if err != nil {
		return nil, err
	}
	if _, _, err := rawScaled(t, raw); err != nil {
		return nil, err
	}
	return &rawWeights{t, raw}, nil
}

// bindScaled binds the triple loop to raw weights.
func (k naive) bindScaled(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	g, t, own, err := joinScaled[*rawWeights](k.dev, k.Name(), t, a, w, c)
	if err != nil {
		return nil, err
	}
	codes, scales, err := rawScaled(t, own.raw)
	if err != nil {
		return nil, err
	}
	if own.problem.Weights != t.Weights {
		return nil, fmt.Errorf("%v: weights were prepared as %v", t, own.problem.Weights)
	}
	g.b, g.b_scales = codes, (*C.float)(scales)
	l := kernelLaunch(C.ga_kernel(C.ga_scaled_naive), g, k.dev.threadsOf(t), "", a.Buffer, w, c.Buffer)
	l.tiling = k.tiling(t)
	return l, nil
}
