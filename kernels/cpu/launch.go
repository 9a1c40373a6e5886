package cpu

/*
#include "native/launch.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

var dtypeCodes = map[kernels.DType]C.ga_dtype{
	kernels.FP32: C.GA_FP32, kernels.FP16: C.GA_FP16, kernels.BF16: C.GA_BF16, kernels.INT8: C.GA_INT8,
}

// launch is a product that is ready to run.
type launch struct {
	c     C.ga_launch
	label string
	// tiling is how our kernels divide the product; libraries do not tell.
	tiling kernels.Tiling
	keep   []any // what must stay alive as long as the launch
	// reason words the code with which a library's call failed; nil where there is no more
	// to tell than the code.
	reason func(code int) string
}

// Label names what runs inside.
func (l *launch) Label() string { return l.label }

// Tiling implements [kernels.TilingTeller].
func (l *launch) Tiling() kernels.Tiling { return l.tiling }

// callLaunch is a launch of a library: call(arg) on one thread. arg must not
// point to Go memory; keep holds its owner.
func callLaunch(call C.ga_call, arg unsafe.Pointer, label string, keep ...any) *launch {
	return &launch{c: C.ga_launch{call: call, arg: arg, threads: 1}, label: label, keep: keep}
}

// kernelLaunch is a launch of one of our kernels on threads threads.
func kernelLaunch(kernel C.ga_kernel, g C.ga_gemm, threads int, label string, keep ...any) *launch {
	return &launch{c: C.ga_launch{kernel: kernel, gemm: g, threads: C.int(threads)}, label: label, keep: keep}
}

// supports is what holds for all kernels of this device: the four types, and no
// more threads than the pool has.
func (d *Device) supports(kernel string, p kernels.Problem) error {
	q, err := p.Normalized()
	if err != nil {
		return &kernels.Unsupported{Kernel: kernel, DType: p.DType, Reason: err.Error()}
	}
	if _, ok := dtypeCodes[q.DType]; !ok {
		return &kernels.Unsupported{Kernel: kernel, DType: q.DType, Reason: "CPU kernels compute fp32, fp16, bf16 and int8"}
	}
	if q.Threads > d.Threads() {
		return &kernels.Unsupported{Kernel: kernel, DType: q.DType,
			Reason: fmt.Sprintf("%d threads were asked for, the device has %d", q.Threads, d.Threads())}
	}
	return nil
}

// threadsOf is the number of threads that p asks for.
func (d *Device) threadsOf(p kernels.Problem) int {
	if p.Threads == 0 {
		return d.Threads()
	}
	return p.Threads
}

// ownWeights are weights of one of this package's types, which know the problem
// that they were prepared for.
type ownWeights interface {
	comparable
	kernels.Weights
	// serve returns an error unless the weights are for products like p.
	serve(p kernels.Problem) error
}

// join checks a problem, A, C and the weights, which must be of type W and serve
// the problem. It returns a product that lacks only B, and the problem normalized.
func join[W ownWeights](d *Device, kernel string, p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (C.ga_gemm, kernels.Problem, W, error) {
	var none W
	p, err := p.Normalized()
	if err != nil {
		return C.ga_gemm{}, p, none, err
	}
	own, ok := w.(W)
	if !ok || own == none {
		return C.ga_gemm{}, p, none, fmt.Errorf("%v: weights are a %T, not prepared by kernel %s", p.Shape, w, kernel)
	}
	if err := own.serve(p); err != nil {
		return C.ga_gemm{}, p, none, err
	}
	g, err := d.bindAC(p, a, c)
	return g, p, own, err
}

// sizes is a product without addresses, of a normalized problem.
func sizes(p kernels.Problem) C.ga_gemm {
	g := C.ga_gemm{
		m: C.int64_t(p.M), n: C.int64_t(p.N), k: C.int64_t(p.K),
		lda: C.int64_t(p.LDA), ldb: C.int64_t(p.LDB), ldc: C.int64_t(p.LDC), dtype: dtypeCodes[p.DType],
	}
	if p.BLayout == kernels.Transposed {
		g.b_transposed = 1
	}
	return g
}

// bindAC checks A and C of a normalized problem against their buffers and
// returns a product that lacks only B.
func (d *Device) bindAC(p kernels.Problem, a, c kernels.Operand) (C.ga_gemm, error) {
	g := sizes(p)
	var err error
	if g.a, err = d.matrix("A", a, p.M, p.K, p.LDA, p.DType); err != nil {
		return g, fmt.Errorf("%v: %w", p.Shape, err)
	}
	if g.c, err = d.matrix("C", c, p.M, p.N, p.LDC, p.DType.Output()); err != nil {
		return g, fmt.Errorf("%v: %w", p.Shape, err)
	}
	return g, nil
}

// rawB checks B as p says it is stored and returns its address.
func (d *Device) rawB(p kernels.Problem, raw kernels.Buffer) (unsafe.Pointer, error) {
	rows, cols := p.K, p.N
	if p.BLayout == kernels.Transposed {
		rows, cols = p.N, p.K
	}
	b, err := d.matrix("B", kernels.Operand{Buffer: raw}, rows, cols, p.LDB, p.DType)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape, err)
	}
	return b, nil
}

// matrix returns the address of a row-major matrix after checking that it lies
// inside its buffer. The last row need not be padded to its leading dimension.
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
	// In floating point first, where nothing overflows.
	if need := float64(o.Offset) + float64(rows-1)*float64(ld) + float64(cols); need > float64(have) {
		return nil, fmt.Errorf("operand %s: %d rows of %d with leading dimension %d at offset %d need %.0f elements of %s, the buffer has %d",
			name, rows, cols, ld, o.Offset, need, t, have)
	}
	return unsafe.Add(b.data, int64(o.Offset)*int64(t.Size())), nil
}
