package cpu

/*
#include <stdlib.h>
#include "native/brought.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/plugin"
)

var _ kernels.SoftmaxLoader = (*Device)(nil)

// LoadSoftmax implements [kernels.SoftmaxLoader].
func (d *Device) LoadSoftmax(path string) (kernels.Kernel, error) {
	s, err := plugin.OpenSoftmax(path)
	if s == nil || err != nil {
		return nil, err
	}
	for _, b := range d.softmaxFiles {
		if b.s.Path == s.Path {
			return b, nil
		}
	}
	if err := s.Suits(d, path); err != nil {
		return nil, err
	}
	b := &broughtSoftmax{dev: d, s: s}
	d.softmaxFiles = append(d.softmaxFiles, b)
	d.spec.AddVersion(s.Name, s.Version())
	return b, nil
}

type broughtSoftmax struct {
	kernels.StoresNothing
	kernels.TellsNothing
	dev *Device
	s   *plugin.Softmax
}

func (b *broughtSoftmax) Name() string { return b.s.Name }

func (b *broughtSoftmax) Describe() string { return b.s.Describe() }

// Supports implements [kernels.Kernel].
func (b *broughtSoftmax) Supports(t kernels.Task) error {
	p, err := t.Softmax(b.Name(), b.dev.Threads())
	if err != nil {
		return err
	}
	return b.s.Supports(p, b.dev.Threads(), 0)
}

// broughtSoftmaxCall owns a launch's memory; a cleanup frees it.
type broughtSoftmaxCall struct{ c *C.ga_brought_softmax_call }

// Bind implements [kernels.Kernel].
func (b *broughtSoftmax) Bind(t kernels.Task, in kernels.Operand, _ kernels.Weights, out kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	if err := b.Supports(t); err != nil {
		return nil, err
	}
	p, err := t.Normalized()
	if err != nil {
		return nil, err
	}
	o := &operation{dev: b.dev, name: b.Name()}
	from := o.operand("In", in, p.M, p.Columns, p.DType)
	to := o.operand("Out", out, p.M, p.Columns, p.DType)
	if o.err != nil {
		return nil, o.err
	}
	call := (*C.ga_brought_softmax_call)(C.calloc(1, C.sizeof_ga_brought_softmax_call))
	call.softmax = (*C.gemmaudit_softmax)(b.s.Descriptor())
	plugin.WriteSoftmax(unsafe.Pointer(&call.launch.problem), p, b.dev.Threads(), 0)
	call.launch.in, call.launch.out = from, to
	owner := &broughtSoftmaxCall{call}
	runtime.AddCleanup(owner, func(call *C.ga_brought_softmax_call) { C.free(unsafe.Pointer(call)) }, call)
	l := callLaunch(C.ga_call(C.ga_brought_softmax_run), unsafe.Pointer(call), "", append(o.keep, owner)...)
	l.reason = func(code int) string { return plugin.Reason(unsafe.Pointer(&owner.c.error[0]), code) }
	return l, nil
}
