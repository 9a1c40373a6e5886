//go:build cuda

package cublas

// #include "cublas.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
)

// askedCall is a call that is captured repeatedly for different products, and never run.
type askedCall struct {
	call *cublasCall
	l    *driver.Launch
	on   *driver.CaptureStream
}

// Tellers implements [kernels.ManyTellers]: each has its own handle and stream.
func (k *cublas) Tellers(n int) ([]kernels.Kernel, error) {
	for len(k.tellers) < n-1 {
		t := &cublas{dev: k.dev, kernel: k.kernel, lib: k.lib, about: k.about, sums: k.sums, loading: k.loading}
		if err := t.ready(); err != nil {
			return nil, err
		}
		k.tellers = append(k.tellers, t)
	}
	out := []kernels.Kernel{k}
	for _, t := range k.tellers[:n-1] {
		out = append(out, t)
	}
	return out, k.ready()
}

// The operands of such a call have addresses in the workspace, this far apart and aligned like a buffer. They
// are never accessed.
const askedApart = 1 << 20

// Choice implements [kernels.Kernel]: it captures the library's kernels into a graph that never runs,
// and reads them from the graph.
func (k *cublas) Choice(b kernels.Task) (kernels.Choice, error) {
	if err := k.Supports(b); err != nil {
		return kernels.Choice{}, err
	}
	b, err := b.Normalized()
	if err != nil {
		return kernels.Choice{}, err
	}
	captured, err := k.capture(b)
	if err != nil {
		// The library must not load code during a capture.
		k.loading.Lock()
		loading := k.runOnce(b)
		k.loading.Unlock()
		if loading != nil {
			return kernels.Choice{}, fmt.Errorf("%v %s: %w", b.Shape(), b.DType, errors.Join(err, loading))
		}
		captured, err = k.capture(b)
	}
	switch {
	case err != nil:
		return kernels.Choice{}, fmt.Errorf("%v %s: %w", b.Shape(), b.DType, err)
	case captured.Names == "":
		return kernels.Choice{},
			fmt.Errorf("%s: the driver does not tell what %s launches: expected one for CUDA 12.3 or later", k.dev.Spec().ID, k.Name())
	}
	c := kernels.Choice{Grid: captured.Grid, Cluster: captured.Cluster, Slots: float64(captured.PerSM * k.dev.Arch().SMs)}
	c.Label, c.Tiling = kernels.ReadLabel(captured.Names)
	return c, nil
}

func (k *cublas) ready() error {
	if err := k.open(); err != nil || k.asked != nil {
		return err
	}
	call := &cublasCall{(*C.ga_cublas_call)(C.calloc(1, C.sizeof_ga_cublas_call))}
	runtime.AddCleanup(call, func(c *C.ga_cublas_call) { C.free(unsafe.Pointer(c)) }, call.c)
	step := driver.Step{Enqueue: C.ga_cublas_enqueue, Self: unsafe.Pointer(call.c), Launches: blasKernels}
	l, err := k.dev.NewLaunch("", k.kernel+" is asked", []driver.Step{step}, call)
	if err != nil {
		return err
	}
	on, err := k.dev.NewCaptureStream()
	if err != nil {
		return err
	}
	k.asked = &askedCall{call, l, on}
	return nil
}

func (k *cublas) capture(b kernels.Task) (driver.Captured, error) {
	if err := k.ready(); err != nil {
		return driver.Captured{}, err
	}
	workspace, err := k.dev.Scratch(blasWorkspaceBytes(k.dev.Arch()))
	if err != nil {
		return driver.Captured{}, err
	}
	*k.asked.call.c = C.ga_cublas_call{on: k.session, gemm: productAsked(b).gemm(),
		b: C.CUdeviceptr(workspace), a: C.CUdeviceptr(workspace + askedApart), c: C.CUdeviceptr(workspace + 2*askedApart)}
	k.asked.l.Library = blasReturned(k.Name(), b.DType)
	return k.asked.on.Capture(k.asked.l)
}

func (k *cublas) runOnce(p kernels.Task) (err error) {
	var held []interface{ Close() error }
	defer func() {
		for i := len(held) - 1; i >= 0; i-- {
			err = errors.Join(err, held[i].Close())
		}
	}()
	rowsOfB := p.K
	if p.Layout == kernels.Transposed {
		rowsOfB = p.N
	}
	var buffers [3]kernels.Buffer
	for i, elements := range []int64{int64(p.M) * int64(p.LDA), int64(rowsOfB) * int64(p.LDB), int64(p.M) * int64(p.LDC)} {
		size := p.DType.Size()
		if i == 2 {
			size = p.DType.Output().Size()
		}
		if buffers[i], err = k.dev.Alloc(elements * int64(size)); err != nil {
			return err
		}
		held = append(held, buffers[i])
	}
	w, err := k.Prepare(p, buffers[1])
	if err != nil {
		return err
	}
	held = append(held, w)
	l, err := k.Bind(p, kernels.Operand{Buffer: buffers[0]}, w, kernels.Operand{Buffer: buffers[2]})
	if err != nil {
		return err
	}
	_, err = k.dev.Prime(context.Background(), l)
	return err
}
