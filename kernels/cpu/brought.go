package cpu

/*
#include <stdlib.h>
#include "native/brought.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/plugin"
)

// LoadKernel implements [kernels.KernelLoader].
func (d *Device) LoadKernel(path string) (kernels.Kernel, error) {
	k, err := plugin.Open(path)
	if err != nil {
		return nil, err
	}
	for _, g := range d.gemms {
		if b, ok := g.(*brought); ok && b.k == k {
			return b, nil
		}
	}
	if err := k.Suits(d, path); err != nil {
		return nil, err
	}
	b := &brought{dev: d, k: k}
	d.gemms = append(d.gemms, b)
	d.spec.AddVersion(k.Name, k.Version())
	return b, nil
}

type brought struct {
	kernels.TellsNothing
	dev       *Device
	k         *plugin.Kernel
	workspace sharedScratch
}

func (b *brought) Name() string { return b.k.Name }

func (b *brought) Describe() string { return b.k.Describe() }

func (b *brought) Supports(p kernels.Task) error {
	p, err := b.dev.supports(b.Name(), p, 0)
	if err != nil {
		return err
	}
	return b.k.Supports(p, b.dev.threadsOf(p), 0)
}

type broughtWeights struct {
	rawWeights
	packed *Buffer
}

func (w *broughtWeights) Bytes() int64 { return w.packed.Bytes() }

func (w *broughtWeights) Close() error { return w.packed.Close() }

// Detached implements [kernels.Weights]; launches read raw B only if they pack it.
func (w *broughtWeights) Detached() bool { return !w.problem.PackInside }

func (w *broughtWeights) serve(p kernels.Task) error {
	if err := w.rawWeights.serve(p); err != nil {
		return err
	}
	if w.packed.data == nil || w.problem.PackInside != p.PackInside {
		return fmt.Errorf("%v: weights are closed, or were prepared for packing outside of the launch", p.Shape())
	}
	return nil
}

// Prepare packs B with the library, on the library thread. It keeps raw B if the library does not
// pack.
func (b *brought) Prepare(p kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if err := b.Supports(p); err != nil {
		return nil, err
	}
	if !b.k.Packs() {
		return b.dev.keepRaw(p, raw)
	}
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	from, err := b.dev.rawB(p, raw)
	if err != nil {
		return nil, err
	}
	bytes, err := b.k.PackedBytes(p, b.dev.threadsOf(p), 0)
	if err != nil {
		return nil, err
	}
	packed, err := b.dev.alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("%v: pack weights: %w", p.Shape(), err)
	}
	w := &broughtWeights{rawWeights{p, raw}, packed}
	if p.PackInside {
		return w, nil
	}
	call := b.call(p)
	defer C.free(unsafe.Pointer(call))
	call.raw, call.packed = from, packed.data
	if rc := C.ga_brought_prepare(call); rc != 0 {
		err := fmt.Errorf("%v %s: pack weights: %s", p.Shape(), p.DType, plugin.Reason(unsafe.Pointer(&call.error[0]), int(rc)))
		return nil, errors.Join(err, packed.Close())
	}
	return w, nil
}

func (b *brought) call(p kernels.Task) *C.ga_brought_call {
	call := (*C.ga_brought_call)(C.calloc(1, C.sizeof_ga_brought_call))
	call.kernel = (*C.gemmaudit_kernel)(b.k.Descriptor())
	plugin.WriteProblem(unsafe.Pointer(&call.launch.problem), p, b.dev.threadsOf(p), 0)
	return call
}

// broughtCall owns a launch's memory; a cleanup frees it.
type broughtCall struct{ c *C.ga_brought_call }

func (b *brought) Bind(p kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	if err := b.Supports(p); err != nil {
		return nil, err
	}
	var g C.ga_gemm
	var err error
	var own *broughtWeights
	if b.k.Packs() {
		if g, p, own, err = join[*broughtWeights](b.dev, b.Name(), p, a, w, c); err == nil {
			g.b = own.packed.data
		}
	} else {
		g, p, err = b.dev.bindRaw(b.Name(), p, a, w, c)
	}
	if err != nil {
		return nil, err
	}
	threads := b.dev.threadsOf(p)
	bytes, err := b.k.WorkspaceBytes(p, threads, 0)
	if err != nil {
		return nil, err
	}
	var scratch *Buffer
	if bytes > 0 {
		if scratch, err = b.workspace.of(b.dev, bytes); err != nil {
			return nil, fmt.Errorf("%v %s: bind %s: %w", p.Shape(), p.DType, b.Name(), err)
		}
	}
	call := b.call(p)
	owner := &broughtCall{call}
	runtime.AddCleanup(owner, func(call *C.ga_brought_call) { C.free(unsafe.Pointer(call)) }, call)
	call.launch.a, call.launch.b, call.launch.c = g.a, g.b, g.c
	if scratch != nil {
		call.launch.workspace = scratch.data
	}
	if p.PackInside && own != nil {
		if call.raw, err = b.dev.rawB(own.problem, own.raw); err != nil {
			return nil, err
		}
		call.packed = own.packed.data
	}
	keep := []any{owner, scratch, w, a.Buffer, c.Buffer}
	if b.k.Team() {
		g.plan = unsafe.Pointer(call)
		return kernelLaunch(C.ga_kernel(C.ga_brought_team), g, threads, "", keep...), nil
	}
	l := callLaunch(C.ga_call(C.ga_brought_run), unsafe.Pointer(call), "", keep...)
	l.reason = func(code int) string { return plugin.Reason(unsafe.Pointer(&owner.c.error[0]), code) }
	return l, nil
}
