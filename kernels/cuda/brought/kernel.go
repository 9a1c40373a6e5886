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

// mostLaunches is the maximum kernels per call of a library, from gemmaudit_kernel.h.
const mostLaunches = C.GEMMAUDIT_MAX_LAUNCHES

// loaded is what a file has for one GPU.
type loaded struct {
	kernels.TellsNothing
	from    plugin.File
	dev     *driver.Device
	ordinal int
}

// From returns the file.
func (l loaded) From() plugin.File { return l.from }

// Name returns the library's name for the kernel.
func (l loaded) Name() string { return l.from.Name }

// Describe returns the library's description, or its path.
func (l loaded) Describe() string { return l.from.Describe() }

// Kernel is a kernel from a file, on one GPU.
type Kernel struct {
	loaded
	file *plugin.Kernel
}

// New makes the kernel of a file for the GPU with the given ordinal.
func New(d *driver.Device, ordinal int, file *plugin.Kernel) *Kernel {
	return &Kernel{loaded{from: file.File, dev: d, ordinal: ordinal}, file}
}

// Supports asks the library.
func (k *Kernel) Supports(t kernels.Task) error {
	p, err := t.Product(k.Name(), 0)
	if err != nil {
		return err
	}
	return k.file.Supports(p, 0, k.ordinal)
}

type weights struct {
	kernels.Weights // the raw B
	dev             *driver.Device
	problem         kernels.Task // normalized
	packed          *driver.Buffer
}

// Bytes returns the size of the packed form.
func (w *weights) Bytes() int64 { return w.packed.Bytes() }

// Close frees the packed form.
func (w *weights) Close() error { return w.packed.Close() }

// Detached reports whether launches read only the packed form, which is false if they pack.
func (w *weights) Detached() bool { return !w.problem.PackInside }

// call returns a launch without operands, in C memory that the owner's cleanup frees.
func (k *Kernel) call(p kernels.Task) *owner {
	o := &owner{(*C.ga_cuda_brought_call)(C.calloc(1, C.sizeof_ga_cuda_brought_call))}
	o.c.kernel = (*C.gemmaudit_kernel)(k.file.Descriptor())
	plugin.WriteProblem(unsafe.Pointer(&o.c.launch.problem), p, 0, k.ordinal)
	runtime.AddCleanup(o, func(c *C.ga_cuda_brought_call) { C.free(unsafe.Pointer(c)) }, o.c)
	return o
}

type owner struct{ c *C.ga_cuda_brought_call }

func (o *owner) failed(code int) error {
	return errors.New(plugin.Reason(unsafe.Pointer(&o.c.error[0]), code))
}

func setPointer(to *unsafe.Pointer, address uint64) { *(*uint64)(unsafe.Pointer(to)) = address }

func (o *owner) packing(raw uint64, packed *driver.Buffer) driver.Step {
	setPointer(&o.c.raw, raw)
	setPointer(&o.c.packed, packed.Address)
	return driver.Step{Enqueue: C.ga_cuda_brought_prepare, Self: unsafe.Pointer(o.c), Launches: mostLaunches}
}

// Prepare packs B by the library, or keeps B if the library does not pack.
func (k *Kernel) Prepare(p kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	kept, err := k.dev.KeepRaw(p, raw)
	if err != nil {
		return nil, err
	}
	if !k.file.Packs() {
		return kept, nil
	}
	p, err = p.Normalized()
	if err != nil {
		return nil, err
	}
	bytes, err := k.file.PackedBytes(p, 0, k.ordinal)
	if err != nil {
		return nil, err
	}
	b, err := k.dev.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("%v: pack weights: %w", p.Shape(), err)
	}
	w := &weights{Weights: kept, dev: k.dev, problem: p, packed: b.(*driver.Buffer)}
	if p.PackInside {
		return w, nil
	}
	if err := k.pack(p, w); err != nil {
		return nil, errors.Join(fmt.Errorf("%v %s: pack weights: %w", p.Shape(), p.DType, err), w.Close())
	}
	return w, nil
}

func (k *Kernel) pack(p kernels.Task, w *weights) error {
	raw, err := k.dev.BindRaw(k.Name(), p, w.Weights)
	if err != nil {
		return err
	}
	call := k.call(p)
	l, err := k.dev.NewLaunch("", k.Name()+" packs "+p.Shape().String(), []driver.Step{call.packing(raw, w.packed)}, call, w)
	if err != nil {
		return err
	}
	l.Library = call.failed
	_, err = k.dev.Once(l)
	return err
}

// weightsOf returns the address of B for launches, and the packing step if each launch packs.
func (k *Kernel) weightsOf(p kernels.Task, of kernels.Weights, call *owner) (b uint64, first []driver.Step, err error) {
	if !k.file.Packs() {
		b, err = k.dev.BindRaw(k.Name(), p, of)
		return b, nil, err
	}
	w, ok := of.(*weights)
	switch {
	case !ok || w == nil || w.dev != k.dev:
		return 0, nil, fmt.Errorf("%v: weights are a %T, not prepared by kernel %s", p.Shape(), of, k.Name())
	case w.packed.Address == 0:
		return 0, nil, fmt.Errorf("%v: weights are closed", p.Shape())
	case w.problem.PackInside != p.PackInside:
		return 0, nil, fmt.Errorf("%v: weights were prepared for packing inside the launch: %v", p.Shape(), w.problem.PackInside)
	}
	if q := w.problem; q.N != p.N || q.K != p.K || q.DType != p.DType || q.Layout != p.Layout || q.LDB != p.LDB {
		return 0, nil, fmt.Errorf("%v %s: weights were prepared for n%d k%d %s", p.Shape(), p.DType, q.N, q.K, q.DType)
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

// Bind binds a problem to its operands.
func (k *Kernel) Bind(p kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	call := k.call(p)
	fail := func(err error) (kernels.Launch, error) { return nil, fmt.Errorf("%v: %w", p.Shape(), err) }
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
	bytes, err := k.file.WorkspaceBytes(p, 0, k.ordinal)
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
	plan := fmt.Sprintf("%s %s %v %v lda%d ldb%d ldc%d", k.Name(), p.DType, p.Shape(), p.Layout, p.LDA, p.LDB, p.LDC)
	if p.PackInside {
		plan += " packs"
	}
	l, err := k.dev.NewLaunch("", plan, steps, call, a.Buffer, w, c.Buffer)
	if err != nil {
		return fail(err)
	}
	l.Library, l.Named = call.failed, named(k.dev)
	return l, nil
}

// named names a launch by the kernels that the library launches.
func named(d *driver.Device) func(*driver.Launch) (string, kernels.Tiling) {
	return func(l *driver.Launch) (string, kernels.Tiling) { return d.KernelNames(l), kernels.Tiling{} }
}
