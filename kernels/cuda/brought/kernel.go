//go:build cuda

package brought

// #include <stdlib.h>
// #include "brought.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/plugin"
)

// mostLaunches is how many kernels one call of a library may launch: gemmaudit_kernel.h
// says so.
const mostLaunches = C.GEMMAUDIT_MAX_LAUNCHES

// Kernel is a kernel that was brought as a file, on one GPU.
type Kernel struct {
	File    *plugin.Kernel
	dev     *driver.Device
	ordinal int
	names   map[string]string // of the kernels that it launches, by plan
}

// New makes the kernel of a file for the GPU of an ordinal.
func New(d *driver.Device, ordinal int, file *plugin.Kernel) *Kernel {
	return &Kernel{File: file, dev: d, ordinal: ordinal, names: map[string]string{}}
}

// Name is the name that the library gives it.
func (k *Kernel) Name() string { return k.File.Name }

// Describe is the library's line, or its path.
func (k *Kernel) Describe() string { return k.File.Describe() }

// Supports asks the library.
func (k *Kernel) Supports(p kernels.Problem) error { return k.File.Supports(p, 0, k.ordinal) }

// weights are B as it was given, and as the library packed it where it packs.
type weights struct {
	kernels.Weights // the raw B
	dev             *driver.Device
	problem         kernels.Problem // normalized
	packed          *driver.Buffer
}

// Bytes is the size of the packed form.
func (w *weights) Bytes() int64 { return w.packed.Bytes() }

// Close frees the packed form.
func (w *weights) Close() error { return w.packed.Close() }

// Detached says that the packed form is all that launches read, unless they pack.
func (w *weights) Detached() bool { return !w.problem.PackInside }

// call is a launch without operands, in memory of C that a cleanup of the owner frees.
func (k *Kernel) call(p kernels.Problem) *owner {
	o := &owner{(*C.ga_cuda_brought_call)(C.calloc(1, C.sizeof_ga_cuda_brought_call))}
	o.c.kernel = (*C.gemmaudit_kernel)(k.File.Descriptor())
	plugin.WriteProblem(unsafe.Pointer(&o.c.launch.problem), p, 0, k.ordinal)
	runtime.AddCleanup(o, func(c *C.ga_cuda_brought_call) { C.free(unsafe.Pointer(c)) }, o.c)
	return o
}

type owner struct{ c *C.ga_cuda_brought_call }

// failed words what the library returned.
func (o *owner) failed(code int) error {
	return errors.New(plugin.Reason(unsafe.Pointer(&o.c.error[0]), code))
}

// setPointer writes a device's address where C has a pointer.
func setPointer(to *unsafe.Pointer, address uint64) { *(*uint64)(unsafe.Pointer(to)) = address }

// packing is the step that packs B.
func (o *owner) packing(raw uint64, packed *driver.Buffer) driver.Step {
	setPointer(&o.c.raw, raw)
	setPointer(&o.c.packed, packed.Address)
	return driver.Step{Enqueue: C.ga_cuda_brought_prepare, Self: unsafe.Pointer(o.c), Launches: mostLaunches}
}

// PrepareWeights has the library pack B; B stays as it is where the library does not pack.
func (k *Kernel) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	kept, err := k.dev.KeepRaw(p, raw)
	if err != nil {
		return nil, err
	}
	if !k.File.Packs() {
		return kept, nil
	}
	p, err = p.Normalized()
	if err != nil {
		return nil, err
	}
	bytes, err := k.File.PackedBytes(p, 0, k.ordinal)
	if err != nil {
		return nil, err
	}
	b, err := k.dev.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("%v: pack weights: %w", p.Shape, err)
	}
	w := &weights{Weights: kept, dev: k.dev, problem: p, packed: b.(*driver.Buffer)}
	if p.PackInside {
		return w, nil
	}
	if err := k.pack(p, w); err != nil {
		return nil, errors.Join(fmt.Errorf("%v %s: pack weights: %w", p.Shape, p.DType, err), w.Close())
	}
	return w, nil
}

// pack runs the packing once.
func (k *Kernel) pack(p kernels.Problem, w *weights) error {
	raw, err := k.dev.BindRaw(k.Name(), p, w.Weights)
	if err != nil {
		return err
	}
	call := k.call(p)
	l, err := k.dev.NewLaunch("", k.Name()+" packs "+p.Shape.String(), []driver.Step{call.packing(raw, w.packed)}, call, w)
	if err != nil {
		return err
	}
	l.Library = call.failed
	_, err = k.dev.Once(l)
	return err
}

// weightsOf returns the address of B as launches read it, and the step before it where each
// packs B anew.
func (k *Kernel) weightsOf(p kernels.Problem, of kernels.Weights, call *owner) (b uint64, first []driver.Step, err error) {
	if !k.File.Packs() {
		b, err = k.dev.BindRaw(k.Name(), p, of)
		return b, nil, err
	}
	w, ok := of.(*weights)
	switch {
	case !ok || w == nil || w.dev != k.dev:
		return 0, nil, fmt.Errorf("%v: weights are a %T, not prepared by kernel %s", p.Shape, of, k.Name())
	case w.packed.Address == 0:
		return 0, nil, fmt.Errorf("%v: weights are closed", p.Shape)
	case w.problem.PackInside != p.PackInside:
		return 0, nil, fmt.Errorf("%v: weights were prepared for packing inside the launch: %v", p.Shape, w.problem.PackInside)
	}
	if q := w.problem; q.N != p.N || q.K != p.K || q.DType != p.DType || q.BLayout != p.BLayout || q.LDB != p.LDB {
		return 0, nil, fmt.Errorf("%v %s: weights were prepared for n%d k%d %s", p.Shape, p.DType, q.N, q.K, q.DType)
	}
	if p.PackInside {
		raw, err := k.dev.BindRaw(k.Name(), p, w.Weights)
		if err != nil {
			return 0, nil, err
		}
		first = []driver.Step{call.packing(raw, w.packed)}
	}
	return w.packed.Address, first, nil
}

// Bind joins a problem with its operands.
func (k *Kernel) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	call := k.call(p)
	fail := func(err error) (kernels.Launch, error) { return nil, fmt.Errorf("%v: %w", p.Shape, err) }
	b, steps, err := k.weightsOf(p, w, call)
	if err != nil {
		return nil, err
	}
	from, err := k.dev.Matrix("A", a, p.M, p.K, p.LDA, p.DType)
	if err != nil {
		return fail(err)
	}
	to, err := k.dev.Matrix("C", c, p.M, p.N, p.LDC, p.DType.Output())
	if err != nil {
		return fail(err)
	}
	bytes, err := k.File.WorkspaceBytes(p, 0, k.ordinal)
	if err != nil {
		return fail(err)
	}
	workspace, err := k.dev.Scratch(bytes)
	if err != nil {
		return fail(err)
	}
	setPointer(&call.c.launch.a, from)
	setPointer(&call.c.launch.b, b)
	setPointer(&call.c.launch.c, to)
	setPointer(&call.c.launch.workspace, workspace)
	steps = append(steps, driver.Step{Enqueue: C.ga_cuda_brought_enqueue, Self: unsafe.Pointer(call.c), Launches: mostLaunches})
	plan := fmt.Sprintf("%s %s %v %v lda%d ldb%d ldc%d", k.Name(), p.DType, p.Shape, p.BLayout, p.LDA, p.LDB, p.LDC)
	if p.PackInside {
		plan += " packs"
	}
	l, err := k.dev.NewLaunch("", plan, steps, call, a.Buffer, w, c.Buffer)
	if err != nil {
		return fail(err)
	}
	l.Library, l.Named = call.failed, func(l *driver.Launch) (string, kernels.Tiling) { return nameOf(k.dev, k.names, l), kernels.Tiling{} }
	return l, nil
}

// nameOf is what a library launches, which the graph tells that a call is captured into; names
// keeps it by plan.
func nameOf(d *driver.Device, names map[string]string, l *driver.Launch) string {
	name, ok := names[l.Plan]
	if !ok {
		if name = d.KernelNames(l); name != "" {
			names[l.Plan] = name
		}
	}
	return name
}
