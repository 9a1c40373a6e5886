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
	// products with gates have another place than C if their epilogue is separate.
	products sharedScratch
}

var _ kernels.Packer = (*fused)(nil)

func (k *fused) Name() string {
	if k.separate {
		return kernels.SeparateKernel(k.of.Name())
	}
	return k.of.Name()
}

func (k *fused) Describe() string {
	if k.separate {
		return "the product, then the epilogue as a pass over it: " + k.of.Describe()
	}
	return "the epilogue on sums in cache: " + k.of.Describe()
}

// Supports implements [kernels.Kernel].
func (k *fused) Supports(t kernels.Task) error {
	_, product, err := k.parts(t)
	if err != nil {
		return err
	}
	return t.UnsupportedAs(k.Name(), k.of.Supports(product))
}

// Packs implements [kernels.Packer].
func (k *fused) Packs(t kernels.Task) bool {
	_, product, err := k.parts(t)
	return err == nil && kernels.Packs(k.of, product)
}

// interleaves reports whether the kernel multiplies weights whose gates alternate with what they multiply: see gates.go.
func (k *fused) interleaves(t kernels.Task) bool { return t.Epilogue.IsGated() && !k.separate }

// parts returns the normalized task, and the product that the kernel computes for it.
func (k *fused) parts(t kernels.Task) (fused, product kernels.Task, err error) {
	if fused, product, err = t.Fused(k.Name()); err != nil || !k.interleaves(t) {
		return fused, product, err
	}
	if t.PackInside {
		return t, t, t.Unsupported(k.Name(), "gates and the columns that they multiply are interleaved before launches, never inside")
	}
	product.N = interleavedColumns(t.N)
	return fused, product, nil
}

// fusedWeights are the product's weights and the epilogue with its bias.
type fusedWeights struct {
	kernels.ManyWeights // of one product
	task                kernels.Task
	// epilogue is a ga_epilogue, followed by the bias in fp32 from [biasStart] on, padded to whole panels.
	epilogue *Buffer
	// interleaved are raw weights that launches read; nil if they don't, or read the caller's.
	interleaved *Buffer
}

const biasStart = 64

// Bytes implements [kernels.Weights].
func (w *fusedWeights) Bytes() int64 { return w.ManyWeights.Bytes() + w.epilogue.bytes }

// Close implements [kernels.Weights].
func (w *fusedWeights) Close() error {
	err := errors.Join(w.ManyWeights.Close(), w.epilogue.Close())
	if w.interleaved != nil {
		err = errors.Join(err, w.interleaved.Close())
	}
	return err
}

// Detached implements [kernels.Detached].
func (w *fusedWeights) Detached() bool { return w.interleaved != nil || w.ManyWeights.Detached() }

// Packing implements [kernels.Packed].
func (w *fusedWeights) Packing() (seconds float64, ok bool) {
	if p, packs := w.Of[0].(kernels.Packed); packs {
		return p.Packing()
	}
	return 0, false
}

// Prepare implements [kernels.Kernel]; it copies the bias.
func (k *fused) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	t, product, err := k.parts(t)
	if err != nil {
		return nil, err
	}
	columns := func(i int) int { return i }
	if k.interleaves(t) {
		columns = func(i int) int { return interleaved(t.N, i) }
	}
	w := &fusedWeights{task: t}
	if w.epilogue, err = k.dev.epilogueOf(t, raw, product.N, columns); err != nil {
		return nil, err
	}
	if k.interleaves(t) {
		if w.interleaved, err = k.dev.interleave(t, raw); err != nil {
			return nil, errors.Join(err, w.Close())
		}
		raw = w.interleaved
	}
	one, err := k.of.Prepare(product, raw)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	w.Of = append(w.Of, one)
	if w.interleaved != nil && w.ManyWeights.Detached() {
		err = w.interleaved.Close()
		w.interleaved = nil
	}
	return w, err
}

// epilogueOf returns the buffer of [fusedWeights] for a product with n columns. Each has the bias of a column of B, or none if that
// is negative.
func (d *Device) epilogueOf(t kernels.Task, raw kernels.Buffer, n int, column func(int) int) (*Buffer, error) {
	columns := divideUp(n, panelColumns) * panelColumns
	b, err := d.alloc(biasStart + 4*int64(columns))
	if err != nil {
		return nil, fmt.Errorf("%v: memory for the bias: %w", t, err)
	}
	e := (*C.ga_epilogue)(b.data)
	*e = C.ga_epilogue{activation: C.ga_activation(t.Epilogue / 2), columns: C.int64_t(t.OutputColumns())}
	C.ga_epilogue_set(e, d.isa())
	if !t.Epilogue.HasBias() {
		return b, nil
	}
	stored, values := make([]byte, t.N*t.DType.Size()), make([]float64, t.N)
	if err = raw.Download(t.BiasAt(), stored); err == nil {
		err = kernels.Decode(t.DType, stored, values)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%v: read the bias: %w", t, err), b.Close())
	}
	bias := unsafe.Slice((*float32)(unsafe.Add(b.data, biasStart)), columns)
	for i := range n {
		if from := column(i); from >= 0 {
			bias[i] = float32(values[from])
		}
	}
	e.bias = (*C.float)(unsafe.Add(b.data, biasStart))
	return b, nil
}

// Bind implements [kernels.Kernel].
func (k *fused) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	t, product, err := k.parts(t)
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
	// The epilogue's own operands: C, the residual, and the product if it has another place.
	e := C.ga_gemm{m: C.int64_t(t.M), n: C.int64_t(t.OutputColumns()), ldc: C.int64_t(t.OutputColumns()),
		dtype: dtypeCodes[t.DType], epilogue: (*C.ga_epilogue)(own.epilogue.data)}
	if e.c, err = k.dev.matrix("C", c, t.M, t.OutputColumns(), t.OutputColumns(), t.OutputType()); err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	if t.Epilogue.HasResidual() {
		if e.residual, err = k.dev.matrix("residual", t.ResidualOperand(a), t.M, t.N, t.N, t.DType); err != nil {
			return nil, fmt.Errorf("%v: %w", t, err)
		}
	}
	to := c
	if t.Epilogue.IsGated() {
		if to.Buffer, err = k.gates(product, e.c); err != nil {
			return nil, fmt.Errorf("%v: %w", t, err)
		}
		to.Offset = 0
	}
	bound, err := k.of.Bind(product, a, own.Of[0], to)
	if err != nil {
		return nil, err
	}
	l, ok := bound.(*launch)
	if !ok || l.c.kernel == nil {
		return nil, fmt.Errorf("%v: kernel %s bound a %T that takes no epilogue", t, k.of.Name(), bound)
	}
	if k.separate {
		e.a, e.lda = l.c.gemm.c, l.c.gemm.ldc
		pass := kernelLaunch(C.ga_kernel(C.ga_epilogue_pass), e, int(l.c.threads), t.Epilogue.String())
		return inSequence(k.Name(), t, []kernels.Launch{l, pass}, a.Buffer, w, c.Buffer, to.Buffer)
	}
	with := *l
	with.c.gemm.epilogue, with.c.gemm.residual, with.c.gemm.ldc = e.epilogue, e.residual, e.ldc
	with.keep = append([]any{w, c.Buffer}, l.keep...)
	return &with, nil
}
