package cpu

/*
#include "native/launch.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/worker"
)

var dtypeCodes = map[kernels.DType]C.ga_dtype{
	kernels.FP32: C.GA_FP32, kernels.FP16: C.GA_FP16, kernels.BF16: C.GA_BF16, kernels.INT8: C.GA_INT8,
}

type launch struct {
	c     C.ga_launch
	label string
	// tiling is how our kernels divide the product; libraries do not report it.
	tiling kernels.Tiling
	keep   []any // objects that must live as long as the launch
	// copies is what a copy between buffers copies; empty for other launches.
	copies worker.Copy
	// reason describes an error code of a library call; nil if only the code is known.
	reason func(code int) string
}

// Label names the code that runs.
func (l *launch) Label() string { return l.label }

// Tiling implements [kernels.TilingTeller].
func (l *launch) Tiling() kernels.Tiling { return l.tiling }

// callLaunch returns a launch of a library: call(arg) on one thread. arg must not point to Go memory; keep
// references its owner.
func callLaunch(call C.ga_call, arg unsafe.Pointer, label string, keep ...any) *launch {
	return &launch{c: C.ga_launch{call: call, arg: arg, threads: 1}, label: label, keep: keep}
}

func kernelLaunch(kernel C.ga_kernel, g C.ga_gemm, threads int, label string, keep ...any) *launch {
	return &launch{c: C.ga_launch{kernel: kernel, gemm: g, threads: C.int(threads)}, label: label, keep: keep}
}

// supports checks requirements of all matrix kernels of this device: a supported type, groups of quantized
// weights, and at most as many threads as the pool has. It returns the normalized task.
func (d *Device) supports(kernel string, t kernels.Task, extras kernels.Extras) (kernels.Task, error) {
	n, err := t.Product(kernel, extras)
	if err != nil {
		return t, err
	}
	no := func(format string, args ...any) (kernels.Task, error) {
		return t, t.Unsupported(kernel, fmt.Sprintf(format, args...))
	}
	switch _, ok := dtypeCodes[n.DType]; {
	case !ok && !n.Scaled():
		return no("CPU kernels compute fp32, fp16, bf16 and int8")
	case n.Threads > d.Threads():
		return no("%d threads were asked for, the device has %d", n.Threads, d.Threads())
	case !n.Quantized() || n.Scaled():
	case n.DType == kernels.INT8:
		return no("activations of quantized weights are fp32, fp16 or bf16")
	case n.Weights.GroupK%groupStep != 0 && n.Weights.GroupK != n.K:
		return no("groups are multiples of %d or whole columns, not %d", groupStep, n.Weights.GroupK)
	}
	return n, nil
}

// prepare prepares a task's weights for k: packed integers, each product's of a batch, or as plain does.
func (d *Device) prepare(k kernels.Kernel, extras kernels.Extras, t kernels.Task, raw kernels.Buffer,
	plain func(kernels.Task, kernels.Buffer) (kernels.Weights, error)) (kernels.Weights, error) {
	n, err := d.supports(k.Name(), t, extras)
	switch {
	case err != nil:
		return nil, err
	case n.Products > 0:
		return d.batchPrepare(k, n, raw)
	case n.Quantized():
		return d.packQuantized(n, raw)
	}
	return plain(n, raw)
}

func (d *Device) threadsOf(p kernels.Task) int {
	if p.Threads == 0 {
		return d.Threads()
	}
	return p.Threads
}

// ownWeights are this package's weights, which store the problem they were prepared for.
type ownWeights interface {
	comparable
	kernels.Weights
	// serve returns an error unless the weights fit p.
	serve(p kernels.Task) error
}

// join checks the problem, A, C and the weights, which must have type W and fit the problem. It returns the
// product without B, and the normalized problem.
func join[W ownWeights](d *Device, kernel string, p kernels.Task, a kernels.Operand, w kernels.Weights,
	c kernels.Operand) (C.ga_gemm, kernels.Task, W, error) {
	var none W
	p, err := p.Normalized()
	if err != nil {
		return C.ga_gemm{}, p, none, err
	}
	own, ok := w.(W)
	if !ok || own == none {
		return C.ga_gemm{}, p, none, fmt.Errorf("%v: weights are a %T, not prepared by kernel %s", p.Shape(), w, kernel)
	}
	if err := own.serve(p); err != nil {
		return C.ga_gemm{}, p, none, err
	}
	g, err := d.bindAC(p, a, c)
	return g, p, own, err
}

func sizes(p kernels.Task) C.ga_gemm {
	g := C.ga_gemm{
		m: C.int64_t(p.M), n: C.int64_t(p.N), k: C.int64_t(p.K),
		lda: C.int64_t(p.LDA), ldb: C.int64_t(p.LDB), ldc: C.int64_t(p.LDC), dtype: dtypeCodes[p.DType],
	}
	if p.Layout == kernels.Transposed {
		g.b_transposed = 1
	}
	return g
}

// bindAC checks A and C against their buffers for a normalized problem and returns the product without B.
func (d *Device) bindAC(p kernels.Task, a, c kernels.Operand) (C.ga_gemm, error) {
	g := sizes(p)
	var err error
	if g.a, err = d.matrix("A", a, p.M, p.K, p.LDA, p.DType); err != nil {
		return g, fmt.Errorf("%v: %w", p.Shape(), err)
	}
	if g.c, err = d.matrix("C", c, p.M, p.N, p.LDC, p.DType.Output()); err != nil {
		return g, fmt.Errorf("%v: %w", p.Shape(), err)
	}
	return g, nil
}

func (d *Device) rawB(p kernels.Task, raw kernels.Buffer) (unsafe.Pointer, error) {
	rows, cols := p.K, p.N
	if p.Layout == kernels.Transposed {
		rows, cols = p.N, p.K
	}
	b, err := d.matrix("B", kernels.Operand{Buffer: raw}, rows, cols, p.LDB, p.DType)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape(), err)
	}
	return b, nil
}

// matrix returns the address of a row-major matrix after checking its bounds. The last row may lack padding.
func (d *Device) matrix(name string, o kernels.Operand, rows, cols, ld int, t kernels.DType) (unsafe.Pointer, error) {
	b, ok := o.Buffer.(*Buffer)
	switch {
	case !ok || b == nil:
		return nil, fmt.Errorf("operand %s: its buffer is a %T, not one of %s", name, o.Buffer, d.spec.ID)
	case b.data == nil:
		return nil, fmt.Errorf("operand %s: its buffer is closed", name)
	case o.Offset < 0:
		return nil, fmt.Errorf("operand %s: offset is %d, expected at least 0", name, o.Offset)
	}
	have := b.bytes / int64(t.Size())
	// The floating-point check comes first because it can't overflow.
	if need := float64(o.Offset) + float64(rows-1)*float64(ld) + float64(cols); need > float64(have) {
		return nil,
			fmt.Errorf("operand %s: %d rows of %d with leading dimension %d at offset %d need %.0f elements of %s, the buffer has %d",
				name, rows, cols, ld, o.Offset, need, t, have)
	}
	return unsafe.Add(b.data, int64(o.Offset)*int64(t.Size())), nil
}
