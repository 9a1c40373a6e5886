//go:build cuda

package cublas

// #include "cublas.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
)

// groupedKernels is the most kernels of a call for all groups.
const groupedKernels = 8

// grouped is cublasGemmGroupedBatchedEx: one call for all groups with rows. Their sizes are on the host.
type grouped struct {
	kernels.TellsNothing
	of *cublas
}

// Grouped returns the kernel of grouped products of a cuBLAS, or nil for other kernels.
func Grouped(k kernels.Kernel) kernels.Kernel {
	if of, ok := k.(*cublas); ok {
		return &grouped{of: of}
	}
	return nil
}

// Name implements [kernels.Kernel].
func (k *grouped) Name() string { return kernels.VariantName(k.of.kernel, "grouped") }

// Describe implements [kernels.Kernel].
func (k *grouped) Describe() string {
	return fmt.Sprintf("%s, cublasGemmGroupedBatchedEx, %s of workspace", k.of.about, blasWorkspace(k.of.dev.Arch()))
}

// supports returns the normalized task and its products.
func (k *grouped) supports(t kernels.Task) (kernels.Task, []kernels.GroupedPart, error) {
	t, err := t.Grouped(k.Name(), 0)
	if err != nil {
		return t, nil, err
	}
	parts, err := t.GroupedParts()
	if err != nil {
		return t, nil, t.Unsupported(k.Name(), err.Error())
	}
	if reason := k.refusal(t); reason != "" {
		return t, nil, t.Unsupported(k.Name(), reason)
	}
	return t, parts, nil
}

func (k *grouped) refusal(t kernels.Task) string {
	switch {
	case C.ga_cublas_has_grouped(k.of.lib) == 0:
		return "the library has no cublasGemmGroupedBatchedEx: it comes with cuBLAS 12.5"
	case t.DType == kernels.FP8 || t.DType == kernels.INT8:
		return "cublasGemmGroupedBatchedEx does not take " + string(t.DType)
	}
	return cublasRefusal(k.of.dev.Arch(), t)
}

// Supports implements [kernels.Kernel].
func (k *grouped) Supports(t kernels.Task) error {
	_, _, err := k.supports(t)
	return err
}

// stack is a product whose B is the weights of all groups.
func stack(t kernels.Task) (kernels.Task, error) {
	n, rows := t.N, t.K
	if t.Layout == kernels.Transposed {
		n *= t.Groups
	} else {
		rows *= t.Groups
	}
	return kernels.Task{Subject: kernels.Product(t.DType, n, rows).In(t.Layout), M: 1}.Normalized()
}

// Prepare leaves the weights in place.
func (k *grouped) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	t, _, err := k.supports(t)
	if err != nil {
		return nil, err
	}
	all, err := stack(t)
	if err != nil {
		return nil, err
	}
	w, err := k.of.dev.KeepRaw(all, raw)
	if err != nil {
		return nil, err // a nil pointer in the interface would not be nil
	}
	return w, nil
}

// groupedCall owns the memory of one launch; a cleanup frees it.
type groupedCall struct{ c *C.ga_cublas_grouped }

// Bind implements [kernels.Kernel].
func (k *grouped) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	t, parts, err := k.supports(t)
	if err != nil {
		return nil, err
	}
	table, err := k.addresses(t, parts, a, w, c)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	if err := k.of.open(); err != nil {
		return nil, err
	}
	rows := make([]C.int, len(parts))
	for i, p := range parts {
		rows[i] = C.int(p.M)
	}
	one, err := parts[0].Task.Normalized()
	if err != nil {
		return nil, err
	}
	gemm := productAsked(one).gemm()
	call := &groupedCall{C.ga_cublas_grouped_new(k.of.session, &gemm, C.int(len(parts)), &rows[0], C.CUdeviceptr(table.Address))}
	if call.c == nil {
		return nil, errors.New("out of host memory")
	}
	runtime.AddCleanup(call, func(c *C.ga_cublas_grouped) { C.free(unsafe.Pointer(c)) }, call.c)
	step := driver.Step{Enqueue: C.ga_cublas_grouped_enqueue, Self: unsafe.Pointer(call.c), Launches: groupedKernels}
	l, err := k.of.dev.NewLaunch("", fmt.Sprintf("%s %v", k.Name(), t), []driver.Step{step}, call, table, a.Buffer, w, c.Buffer)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	l.Library, l.Named = blasReturned(k.Name(), t.DType), k.of.name
	return l, nil
}

// addresses makes the table of the addresses of all B, A and C.
func (k *grouped) addresses(t kernels.Task, parts []kernels.GroupedPart, a kernels.Operand, w kernels.Weights,
	c kernels.Operand) (*driver.Table, error) {
	dev := k.of.dev
	all, err := stack(t)
	if err != nil {
		return nil, err
	}
	atB, err := dev.BindRaw(k.Name(), all, w)
	if err != nil {
		return nil, err
	}
	atA, err := dev.Matrix("A", a, t.M, t.K, t.K, t.DType)
	if err != nil {
		return nil, err
	}
	atC, err := dev.Matrix("C", c, t.M, t.N, t.N, t.DType.Output())
	if err != nil {
		return nil, err
	}
	table := make([]uint64, 3*len(parts))
	in, out := uint64(t.DType.Size()), uint64(t.DType.Output().Size())
	for i, p := range parts {
		table[i] = atB + uint64(p.Group)*uint64(t.N)*uint64(t.K)*in
		table[len(parts)+i] = atA + uint64(p.Row)*uint64(t.K)*in
		table[2*len(parts)+i] = atC + uint64(p.Row)*uint64(t.N)*out
	}
	return driver.NewTable(dev, table)
}
