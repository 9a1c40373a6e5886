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

// onednn is the system's oneDNN. Like an inference engine, it reorders weights ahead of time to oneDNN's
// preferred format and creates a primitive per M.
type onednn struct {
	dev  *Device
	name string
	api  dnnAPI
	// refusals caches oneDNN's answer per type on this CPU; nil means supported.
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

func (k *onednn) named(name string) kernels.Kernel {
	k.name = name
	return k
}

func (k *onednn) Describe() string {
	return strings.Join(strings.Fields(fmt.Sprintf("oneDNN %s %s matmul, weights reordered ahead, OpenMP threads", k.api.version(),
		k.api.isa())), " ")
}

// Supports asks oneDNN once per type; support depends on the CPU and oneDNN's version.
func (k *onednn) Supports(p kernels.Task) error {
	if _, err := k.dev.supports(k.Name(), p, kernels.Batches); err != nil {
		return err
	}
	refusal, asked := k.refusals[p.DType]
	if !asked {
		refusal = k.ask(p.DType)
		k.refusals[p.DType] = refusal
	}
	return refusal
}

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

// onednnWeights is B in all formats used so far, usually one. If another M or thread count needs another
// format, binding adds it, outside the timing.
type onednnWeights struct {
	rawWeights
	forms   []onednnForm
	seconds float64 // time to pack the first format
}

type onednnForm struct {
	c      *C.ga_dnn_form
	packed *Buffer
}

// Bytes returns the size of the first format, or of raw B if not reordered.
func (w *onednnWeights) Bytes() int64 {
	if len(w.forms) > 0 {
		return w.forms[0].packed.Bytes()
	}
	return w.rawWeights.Bytes() * int64(max(1, w.problem.Products))
}

// Packing implements [kernels.Packed].
func (w *onednnWeights) Packing() (seconds float64, ok bool) { return w.seconds, len(w.forms) > 0 }

func (w *onednnWeights) Close() error {
	var errs []error
	for _, f := range w.forms {
		C.ga_dnn_form_free(f.c)
		errs = append(errs, f.packed.Close())
	}
	w.forms = nil
	return errors.Join(errs...)
}

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
func (k *onednn) Packs(kernels.Task) bool { return true }

// Prepare reorders B to oneDNN's preferred format for p.M. With p.PackInside it keeps raw B, and
// oneDNN reorders B in each launch.
func (k *onednn) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	p, err := t.Normalized()
	if err != nil {
		return nil, err
	}
	if p.Products > 0 {
		return k.prepareBatch(p, raw)
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
		return nil, fmt.Errorf("%v %s: prepare weights for oneDNN: %w", p.Shape(), p.DType, err)
	}
	w.seconds = time.Since(began).Seconds()
	return w, nil
}

// onednnMatmul owns a primitive and its memories. A cleanup frees them with the launch.
type onednnMatmul struct{ c *C.ga_dnn_matmul }

func (k *onednn) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	if t.Products > 0 {
		return k.bindBatch(t, a, w, c)
	}
	g, p, dw, err := join[*onednnWeights](k.dev, k.Name(), t, a, w, c)
	if err != nil {
		return nil, err
	}
	if dw.problem.Products > 0 {
		return nil, fmt.Errorf("%v: weights are those of a batch, %v", p.Shape(), dw.problem)
	}
	return k.bind(p, g, dw, a.Buffer, c.Buffer)
}

// Choice implements [kernels.Kernel] with the implementation's name, without creating a primitive.
func (k *onednn) Choice(p kernels.Task) (kernels.Choice, error) {
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

// bind creates the primitive for g, which is the normalized p or a batch of it, without B.
func (k *onednn) bind(p kernels.Task, g C.ga_gemm, dw *onednnWeights, a, c kernels.Buffer) (kernels.Launch, error) {
	plan, err := k.api.plan(g, k.dev.threadsOf(p), p.PackInside)
	if err != nil {
		return nil, k.refuse(p.DType, err)
	}
	defer C.ga_dnn_plan_free(plan)
	fail := func(err error) (kernels.Launch, error) {
		return nil, fmt.Errorf("%v %s: bind to oneDNN: %w", p.Shape(), p.DType, err)
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
