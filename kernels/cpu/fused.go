package cpu

/*
#include "native/epilogue.h"
#include "native/path.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// inTile are our kernels of products that apply an epilogue to their sums.
var inTile = []string{"auto", "naive", "gemv", "tiled", "amx"}

// separateSuffix names a kernel that stores the product and then reads it again for the epilogue.
const separateSuffix = "-separate"

// fusedKernels lists kernels of fused products: ours, and auto with a separate pass, which shows what fusing gains.
func (d *Device) fusedKernels() []kernels.Kernel {
	var out []kernels.Kernel
	for _, name := range inTile {
		if g := d.gemm(name); g != nil {
			out = append(out, &fused{dev: d, of: g})
		}
	}
	if g := d.gemm("auto"); g != nil {
		out = append(out, &fused{dev: d, of: g, separate: true})
	}
	return out
}

// fused computes fused products with a kernel of products.
type fused struct {
	kernels.TellsNothing
	dev      *Device
	of       kernels.Kernel
	separate bool
}

var _ kernels.Packer = (*fused)(nil)

func (k *fused) Name() string {
	if k.separate {
		return k.of.Name() + separateSuffix
	}
	return k.of.Name()
}

func (k *fused) Describe() string {
	if k.separate {
		return "the product, then the epilogue as a pass over C: " + k.of.Describe()
	}
	return "the epilogue on sums in cache: " + k.of.Describe()
}

// Supports implements [kernels.Kernel].
func (k *fused) Supports(t kernels.Task) error {
	_, product, err := t.Fused(k.Name())
	if err != nil {
		return err
	}
	if t.Epilogue.IsGated() || t.Epilogue.HasResidual() {
		return t.Unsupported(k.Name(), "it has no gates and no residual")
	}
	err = k.of.Supports(product)
	var no *kernels.Unsupported
	if errors.As(err, &no) {
		return t.Unsupported(k.Name(), no.Reason)
	}
	return err
}

// Packs implements [kernels.Packer].
func (k *fused) Packs(t kernels.Task) bool {
	_, product, err := t.Fused(k.Name())
	return err == nil && kernels.Packs(k.of, product)
}

// fusedWeights are the product's weights and the epilogue with its bias.
type fusedWeights struct {
	kernels.ManyWeights // of one product
	task                kernels.Task
	// epilogue is a ga_epilogue, followed by the bias in fp32 from [biasStart] on, padded to whole panels.
	epilogue *Buffer
}

const biasStart = 64

// Bytes implements [kernels.Weights].
func (w *fusedWeights) Bytes() int64 { return w.ManyWeights.Bytes() + w.epilogue.bytes }

// Close implements [kernels.Weights].
func (w *fusedWeights) Close() error { return errors.Join(w.ManyWeights.Close(), w.epilogue.Close()) }

// Packing implements [kernels.Packed].
func (w *fusedWeights) Packing() (seconds float64, ok bool) {
	if p, packs := w.Of[0].(kernels.Packed); packs {
		return p.Packing()
	}
	return 0, false
}

// Prepare implements [kernels.Kernel]; it copies the bias.
func (k *fused) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	t, product, err := t.Fused(k.Name())
	if err != nil {
		return nil, err
	}
	epilogue, err := k.dev.epilogueOf(t, raw)
	if err != nil {
		return nil, err
	}
	w := &fusedWeights{task: t, epilogue: epilogue}
	one, err := k.of.Prepare(product, raw)
	if err != nil {
		return nil, errors.Join(err, epilogue.Close())
	}
	w.Of = append(w.Of, one)
	return w, nil
}

// epilogueOf returns the buffer of [fusedWeights].
func (d *Device) epilogueOf(t kernels.Task, raw kernels.Buffer) (*Buffer, error) {
	columns := divideUp(t.N, panelColumns) * panelColumns
	b, err := d.alloc(biasStart + 4*int64(columns))
	if err != nil {
		return nil, fmt.Errorf("%v: memory for the bias: %w", t, err)
	}
	e := (*C.ga_epilogue)(b.data)
	*e = C.ga_epilogue{activation: C.ga_activation(t.Epilogue / 2)}
	C.ga_epilogue_set(e, d.isa())
	if !t.Epilogue.HasBias() {
		return b, nil
	}
	stored, values := make([]byte, t.N*t.DType.Size()), make([]float64, columns)
	if err = raw.Download(t.BiasAt(), stored); err == nil {
		err = kernels.Decode(t.DType, stored, values[:t.N])
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%v: read the bias: %w", t, err), b.Close())
	}
	bias := unsafe.Slice((*float32)(unsafe.Add(b.data, biasStart)), columns)
	for i, v := range values {
		bias[i] = float32(v)
	}
	e.bias = (*C.float)(unsafe.Add(b.data, biasStart))
	return b, nil
}

// Bind implements [kernels.Kernel].
func (k *fused) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	t, product, err := t.Fused(k.Name())
	if err != nil {
		return nil, err
	}
	own, ok := w.(*fusedWeights)
	switch {
	case !ok || own == nil:
		return nil, fmt.Errorf("%v: weights are a %T, not prepared by kernel %s", t, w, k.Name())
	case own.epilogue.data == nil:
		return nil, fmt.Errorf("%v: weights are closed", t)
	case own.task.Epilogue != t.Epilogue || own.task.N != t.N || own.task.DType != t.DType:
		return nil, fmt.Errorf("%v: weights were prepared for %v", t, own.task)
	}
	bound, err := k.of.Bind(product, a, own.Of[0], c)
	if err != nil {
		return nil, err
	}
	l, ok := bound.(*launch)
	if !ok || l.c.kernel == nil {
		return nil, fmt.Errorf("%v: kernel %s bound a %T that takes no epilogue", t, k.of.Name(), bound)
	}
	e := (*C.ga_epilogue)(own.epilogue.data)
	if k.separate {
		g := l.c.gemm
		g.epilogue = e
		pass := kernelLaunch(C.ga_kernel(C.ga_epilogue_pass), g, int(l.c.threads), t.Epilogue.String())
		return inSequence(k.Name(), t, []kernels.Launch{l, pass}, a.Buffer, w, c.Buffer)
	}
	with := *l
	with.c.gemm.epilogue = e
	with.keep = append([]any{w}, l.keep...)
	return &with, nil
}
