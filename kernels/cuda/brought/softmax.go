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
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/plugin"
)

// Softmax is a softmax from a file, on one GPU.
type Softmax struct {
	kernels.StoresNothing
	loaded
	file *plugin.Softmax
}

// NewSoftmax makes the softmax of a file for the GPU with the given ordinal.
func NewSoftmax(d *driver.Device, ordinal int, file *plugin.Softmax) *Softmax {
	return &Softmax{loaded: loaded{from: file.File, dev: d, ordinal: ordinal}, file: file}
}

// Supports asks the library.
func (k *Softmax) Supports(t kernels.Task) error {
	p, err := t.Softmax(k.Name(), 0)
	if err != nil {
		return err
	}
	return k.file.Supports(p, 0, k.ordinal)
}

type softmaxOwner struct {
	c *C.ga_cuda_brought_softmax_call
}

func (o *softmaxOwner) failed(code int) error {
	return errors.New(plugin.Reason(unsafe.Pointer(&o.c.error[0]), code))
}

// Bind binds a problem to its operands.
func (k *Softmax) Bind(p kernels.Task, in kernels.Operand, _ kernels.Weights, out kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	fail := func(err error) (kernels.Launch, error) { return nil, fmt.Errorf("%v: %w", p, err) }
	from, err := k.dev.Matrix("In", in, p.M, p.Columns, p.Columns, p.DType)
	if err != nil {
		return fail(err)
	}
	to, err := k.dev.Matrix("Out", out, p.M, p.Columns, p.Columns, p.DType)
	if err != nil {
		return fail(err)
	}
	call := &softmaxOwner{(*C.ga_cuda_brought_softmax_call)(C.calloc(1, C.sizeof_ga_cuda_brought_softmax_call))}
	runtime.AddCleanup(call, func(c *C.ga_cuda_brought_softmax_call) { C.free(unsafe.Pointer(c)) }, call.c)
	call.c.softmax = (*C.gemmaudit_softmax)(k.file.Descriptor())
	plugin.WriteSoftmax(unsafe.Pointer(&call.c.launch.problem), p, 0, k.ordinal)
	setPointer(&call.c.launch.in, from)
	setPointer(&call.c.launch.out, to)
	step := driver.Step{Enqueue: C.ga_cuda_brought_softmax_enqueue, Self: unsafe.Pointer(call.c), Launches: mostLaunches}
	plan := fmt.Sprintf("%s %v scale %g aligned %d", k.Name(), p, p.Scale, planning.AlignmentOf(from|to, 0))
	l, err := k.dev.NewLaunch("", plan, []driver.Step{step}, call, in.Buffer, out.Buffer)
	if err != nil {
		return fail(err)
	}
	l.Library, l.Named = call.failed, named(k.dev)
	return l, nil
}
