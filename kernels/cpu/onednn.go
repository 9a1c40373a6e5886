package cpu

/*
#include "native/onednn.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

var onednnName = libraryName{
	kernel:  "onednn",
	env:     "GEMMAUDIT_ONEDNN",
	sonames: sharedNames("dnnl", "3", "2", ""),
	install: "install Debian's libdnnl2 or later",
}

// onednn is the system's oneDNN. Its weights are reordered ahead of time to the
// form that it asks for, as an inference engine does, and a primitive is made for
// each M.
type onednn struct {
	dev  *Device
	name string
	api  dnnAPI
	// refusals holds what oneDNN said of each type on this CPU, nil when it has
	// an implementation.
	refusals map[kernels.DType]error
	scratch  sharedScratch
}

func bindOneDNN(d *Device, l *library) (boundLibrary, error) {
	api, err := dnnOpen(l)
	if err != nil {
		return nil, err
	}
	return &onednn{dev: d, name: onednnName.kernel, api: api, refusals: map[kernels.DType]error{}}, nil
}

func (k *onednn) Name() string { return k.name }

func (k *onednn) release() string { return k.api.version() }

func (*onednn) build() string { return "" }

func (k *onednn) isa() string { return k.api.isa() }

func (k *onednn) named(name string) kernels.Gemm {
	k.name = name
	return k
}

func (k *onednn) Describe() string {
	return strings.Join(strings.Fields(fmt.Sprintf("oneDNN %s %s matmul, weights reordered ahead, OpenMP threads", k.api.version(), k.api.isa())), " ")
}

// Supports asks oneDNN itself, once for each type: what it has depends on the CPU
// and on its version.
func (k *onednn) Supports(p kernels.Problem) error {
	if err := k.dev.supports(k.Name(), p); err != nil {
		return err
	}
	refusal, asked := k.refusals[p.DType]
	if !asked {
		refusal = k.ask(p.DType)
		k.refusals[p.DType] = refusal
	}
	return refusal
}

// ask plans a product of an ordinary size.
func (k *onednn) ask(d kernels.DType) error {
	const n = 64
	g := C.ga_gemm{m: n, n: n, k: n, lda: n, ldb: n, ldc: n, dtype: dtypeCodes[d]}
	plan, err := k.api.plan(g, k.dev.Threads(), false)
	if err != nil {
		return k.refuse(d, err)
	}
	C.ga_dnn_plan_free(plan)
	return nil
}

func (k *onednn) refuse(d kernels.DType, err error) error {
	reason := err.Error()
	if errors.Is(err, errRefused) {
		reason = fmt.Sprintf("oneDNN %s has no %s matmul for this problem on this CPU (unimplemented)", k.api.version(), d)
	}
	return &kernels.Unsupported{Kernel: k.Name(), DType: d, Reason: reason}
}

// onednnWeights are B in the forms that were asked for so far. Mostly that is
// one; where oneDNN wants another for another M or number of threads, that is
// added when the product is bound, ahead of timing.
type onednnWeights struct {
	rawWeights
	batch   kernels.Batch // normalized, of which these are the weights; no products for a single one
	forms   []onednnForm
	seconds float64 // that the first form took
}

type onednnForm struct {
	c      *C.ga_dnn_form
	packed *Buffer
}

// Bytes is the size of the first form, or of the raw B when it is not reordered.
func (w *onednnWeights) Bytes() int64 {
	if len(w.forms) > 0 {
		return w.forms[0].packed.Bytes()
	}
	return w.rawWeights.Bytes() * int64(max(1, w.batch.Products))
}

// Packing implements [kernels.Packed].
func (w *onednnWeights) Packing() (seconds float64, ok bool) { return w.seconds, len(w.forms) > 0 }

// Close frees every form.
func (w *onednnWeights) Close() error {
	var errs []error
	for _, f := range w.forms {
		C.ga_dnn_form_free(f.c)
		errs = append(errs, f.packed.Close())
	}
	w.forms = nil
	return errors.Join(errs...)
}

// pick returns B in the form that the plan wants.
func (w *onednnWeights) pick(k *onednn, g C.ga_gemm, plan *C.ga_dnn_plan) (*Buffer, error) {
	for _, f := range w.forms {
		if C.ga_dnn_form_fits(f.c, plan) != 0 {
			return f.packed, nil
		}
	}
	raw, err := k.dev.rawB(w.problem, w.raw)
	if err != nil {
		return nil, err
	}
	packed, err := k.dev.alloc(int64(C.ga_dnn_plan_weight_bytes(plan)))
	if err != nil {
		return nil, err
	}
	g.b_raw = raw
	form, err := k.api.form(g, plan, packed.data)
	if err != nil {
		return nil, errors.Join(err, packed.Close())
	}
	w.forms = append(w.forms, onednnForm{form, packed})
	return packed, nil
}

// Packs implements [kernels.Packer].
func (k *onednn) Packs(kernels.Problem) bool { return true }

// PrepareWeights reorders B to the form that oneDNN wants for p.M; with
// p.PackInside B stays as it is and oneDNN copies what it needs in each launch.
func (k *onednn) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	if _, err := k.dev.rawB(p, raw); err != nil {
		return nil, err
	}
	w := &onednnWeights{rawWeights: rawWeights{p, raw}}
	if p.PackInside {
		return w, nil
	}
	g := sizes(p)
	plan, err := k.api.plan(g, k.dev.threadsOf(p), false)
	if err != nil {
		return nil, k.refuse(p.DType, err)
	}
	defer C.ga_dnn_plan_free(plan)
	began := time.Now()
	if _, err := w.pick(k, g, plan); err != nil {
		return nil, fmt.Errorf("%v %s: prepare weights for oneDNN: %w", p.Shape, p.DType, err)
	}
	w.seconds = time.Since(began).Seconds()
	return w, nil
}

// onednnMatmul owns a primitive and its memories. A cleanup frees them once
// nothing refers to the launch any more.
type onednnMatmul struct{ c *C.ga_dnn_matmul }

// Bind makes the primitive for p.M.
func (k *onednn) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	g, p, dw, err := join[*onednnWeights](k.dev, k.Name(), p, a, w, c)
	if err != nil {
		return nil, err
	}
	if dw.batch.Products > 0 {
		return nil, fmt.Errorf("%v: weights are those of a batch, %v", p.Shape, dw.batch)
	}
	return k.bind(p, g, dw, a.Buffer, c.Buffer)
}

// Choice implements [kernels.ChoiceTeller]: the name of the implementation, for which no
// primitive is made.
func (k *onednn) Choice(p kernels.Problem) (kernels.Choice, error) {
	if err := k.Supports(p); err != nil {
		return kernels.Choice{}, err
	}
	p, err := p.Normalized()
	if err != nil {
		return kernels.Choice{}, err
	}
	plan, err := k.api.plan(sizes(p), k.dev.threadsOf(p), p.PackInside)
	if err != nil {
		return kernels.Choice{}, k.refuse(p.DType, err)
	}
	defer C.ga_dnn_plan_free(plan)
	return kernels.Choice{Label: C.GoString(C.ga_dnn_plan_label(plan))}, nil
}

// bind makes the primitive for g, which is the normalized p or a batch of such products and
// lacks only B.
func (k *onednn) bind(p kernels.Problem, g C.ga_gemm, dw *onednnWeights, a, c kernels.Buffer) (kernels.Launch, error) {
	plan, err := k.api.plan(g, k.dev.threadsOf(p), p.PackInside)
	if err != nil {
		return nil, k.refuse(p.DType, err)
	}
	defer C.ga_dnn_plan_free(plan)
	fail := func(err error) (kernels.Launch, error) {
		return nil, fmt.Errorf("%v %s: bind to oneDNN: %w", p.Shape, p.DType, err)
	}
	var weights unsafe.Pointer
	var held any = dw
	if p.PackInside {
		if weights, err = k.dev.rawB(p, dw.raw); err != nil {
			return fail(err)
		}
	} else {
		packed, err := dw.pick(k, g, plan)
		if err != nil {
			return fail(err)
		}
		weights, held = packed.data, packed
	}
	scratch, err := k.scratch.of(k.dev, int64(C.ga_dnn_plan_scratch_bytes(plan)))
	if err != nil {
		return fail(err)
	}
	mm, err := k.api.matmul(g, plan, weights, scratch.data)
	if err != nil {
		return fail(err)
	}
	owner := &onednnMatmul{mm}
	runtime.AddCleanup(owner, func(mm *C.ga_dnn_matmul) { C.ga_dnn_matmul_free(mm) }, mm)
	return callLaunch(C.ga_call(C.ga_dnn_matmul_run), unsafe.Pointer(mm), C.GoString(C.ga_dnn_plan_label(plan)),
		owner, scratch, held, a, c), nil
}
