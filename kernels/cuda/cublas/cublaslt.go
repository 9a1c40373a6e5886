//go:build cuda

package cublas

// #include "cublas.h"
import "C"

import (
	"cmp"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// cublasLt is cuBLASLt on one device: cublasLtMatmul with the algorithms of its heuristic.
type cublasLt struct {
	dev     *driver.Device
	kernel  string // the name of its first choice
	lib     *C.ga_cublaslt
	about   string
	sums    splitSums
	fp8     fp8Sums
	session *C.ga_cublaslt_session // nil before the first product
	plans   map[ltKey]*ltPlan
	// questions are product descriptors; only M changes.
	questions map[ltKey]*ltPlan
	tellers   []*cublasLt // parallel tellers for Choice
	lane      int         // of [driver.Device.Fork]; launches of different lanes may run at the same time
}

// Tellers implements [kernels.ManyTellers]: each has its own handle and questions.
func (k *cublasLtChoice) Tellers(n int) ([]kernels.Kernel, error) {
	for len(k.tellers) < n-1 {
		t := &cublasLt{dev: k.dev, kernel: k.kernel, lib: k.lib, about: k.about, sums: k.sums, fp8: k.fp8}
		if err := t.open(); err != nil {
			return nil, err
		}
		k.tellers = append(k.tellers, t)
	}
	out := []kernels.Kernel{k}
	for _, t := range k.tellers[:n-1] {
		out = append(out, &cublasLtChoice{cublasLt: t, n: k.n, exact: k.exact})
	}
	return out, k.open()
}

// cublasLtChoice is the kernel of one choice: the heuristic's first, the nth after that, or an algorithm
// given by attributes.
type cublasLtChoice struct {
	*cublasLt
	n     int
	exact kernels.Algorithm // zero if the heuristic chooses
}

var (
	_ kernels.Candidates     = (*cublasLtChoice)(nil)
	_ kernels.AlgorithmTaker = (*cublasLtChoice)(nil)
	_ kernels.ManyTellers    = (*cublasLtChoice)(nil)
	_ kernels.ManyTellers    = (*cublas)(nil)
)

type ltKey struct {
	product blasProduct
	aligned [3]int
	most    int
	exact   kernels.Algorithm // bypasses the heuristic if set
}

// ltPlan is the heuristic's answer, in the library's memory.
type ltPlan struct {
	c       *C.ga_cublaslt_plan // nil if there is no algorithm
	configs []ltConfig          // best first
	status  C.int               // the reason if c is nil
}

// The heuristic is asked for one algorithm, as applications do, or for one of these numbers for later
// choices. The numbers are fixed, so a candidate is the same algorithm however many are measured.
const (
	ltFew  = 16
	ltMany = 128
)

func (k *cublasLtChoice) Name() string {
	switch {
	case k.exact != kernels.Algorithm{}:
		return kernels.AlgorithmName(k.kernel, k.exact)
	case k.n == 0:
		return k.kernel
	}
	return kernels.CandidateName(k.kernel, k.n)
}

func (k *cublasLtChoice) Describe() string {
	choice := "the heuristic's first choice"
	if k.n > 0 {
		choice = fmt.Sprintf("choice %d after the heuristic's first", k.n)
	}
	if k.exact != (kernels.Algorithm{}) {
		choice = ltConfig{Algorithm: k.exact}.label() + " by its attributes"
	}
	return fmt.Sprintf("%s, cublasLtMatmul with %s, %s of workspace, %v, fp8 %v",
		k.about, choice, blasWorkspace(k.dev.Arch()), k.sums, k.fp8)
}

// Candidate returns the nth choice after the first.
func (k *cublasLtChoice) Candidate(n int) kernels.Kernel {
	return &cublasLtChoice{cublasLt: k.cublasLt, n: n}
}

// WithAlgorithm implements [kernels.AlgorithmTaker] by cublasLtMatmulAlgoInit and the attributes;
// cublasLtMatmulAlgoCheck decides which products it supports.
func (k *cublasLtChoice) WithAlgorithm(a kernels.Algorithm) kernels.Kernel {
	return &cublasLtChoice{cublasLt: k.cublasLt, exact: a}
}

// supports returns the normalized task if the library may run it with plain weights. It does not ask the
// heuristic.
func (k *cublasLtChoice) supports(t kernels.Task) (kernels.Task, error) {
	return blasSupports(k.Name(), t, func(p kernels.Task) string { return cmp.Or(k.fp8.refusal(p.DType), blasRefusal(k.dev.Arch(), p)) })
}

// Supports asks the heuristic.
func (k *cublasLtChoice) Supports(t kernels.Task) error {
	if t.Scaled() {
		n, err := k.supportsScaled(t)
		if err == nil {
			_, _, err = k.choose(n, scaledProduct(n), alignedStrides(blasProduct{}, n.DType), k.ask)
		}
		return err
	}
	if t.Quantized() {
		return supportsQuantized(k.dev, k, t)
	}
	b, err := k.supports(t)
	if err != nil {
		return err
	}
	// Aligned like a buffer's start.
	product := productAsked(b)
	_, _, err = k.choose(b, product, alignedStrides(product, b.DType), k.ask)
	return err
}

func (k *cublasLt) open() error {
	if k.session != nil {
		return nil
	}
	return withWorkspace(k.dev, k.lane, "cuBLASLt", func(workspace C.CUdeviceptr, bytes C.size_t, status *C.int) bool {
		k.session = C.ga_cublaslt_session_new(k.lib, workspace, bytes, k.sums.reductions(), k.fp8.fast(), status)
		return k.session != nil
	}, func() {
		C.ga_cublaslt_session_free(k.session)
		k.session, k.plans, k.questions, k.tellers = nil, nil, nil, nil
	})
}

func (k *cublasLt) ask(product blasProduct, aligned [3]int, most int) (*ltPlan, error) {
	return k.planned(ltKey{product: product, aligned: aligned, most: most})
}

// with returns the plan of an algorithm given by attributes. The library ignores operand alignment in this
// check.
func (k *cublasLt) with(product blasProduct, a kernels.Algorithm) (*ltPlan, error) {
	return k.planned(ltKey{product: product, exact: a})
}

func (k *cublasLt) planned(key ltKey) (*ltPlan, error) {
	if plan := k.plans[key]; plan != nil {
		return plan, nil
	}
	if err := k.open(); err != nil {
		return nil, err
	}
	leave, err := k.dev.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	plan := &ltPlan{}
	gemm := key.product.gemm()
	if key.exact != (kernels.Algorithm{}) {
		a := key.exact
		config := C.ga_cublaslt_config{
			id: C.int32_t(a.ID), tile: C.int32_t(a.Tile), stages: C.int32_t(a.Stages), split_k: C.int32_t(a.SplitK),
			reduction: C.int32_t(a.Reduction),
			swizzle:   C.int32_t(a.Swizzle), custom_option: C.int32_t(a.Custom), inner_shape: C.int32_t(a.Inner),
			cluster_shape: C.int32_t(a.Cluster),
		}
		plan.c = C.ga_cublaslt_plan_with(k.session, &gemm, &config, &plan.status)
	} else {
		plan.c = C.ga_cublaslt_plan_new(k.session, &gemm, C.uint(key.aligned[0]), C.uint(key.aligned[1]), C.uint(key.aligned[2]),
			C.int(key.most), &plan.status)
	}
	if plan.c != nil {
		plan.own()
		plan.read()
	}
	if len(k.plans) >= planning.KeptPlans || k.plans == nil {
		k.plans = map[ltKey]*ltPlan{} // launches keep references to theirs
	}
	if plan.c != nil || plan.refused() {
		k.plans[key] = plan
	}
	return plan, nil
}

// askAgain is ask for products that differ in M only. It reuses the product's descriptors, and the answer is
// valid until the next call.
func (k *cublasLt) askAgain(product blasProduct, aligned [3]int, most int) (*ltPlan, error) {
	if err := k.open(); err != nil {
		return nil, err
	}
	leave, err := k.dev.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	key := ltKey{product: product, aligned: aligned, most: most}
	key.product.n = 0
	plan := k.questions[key]
	if plan == nil {
		plan = &ltPlan{}
		gemm := product.gemm()
		if plan.c = C.ga_cublaslt_plan_describe(k.session, &gemm, C.int(most), &plan.status); plan.c == nil {
			return plan, nil
		}
		plan.own()
		if len(k.questions) >= planning.KeptPlans || k.questions == nil {
			k.questions = map[ltKey]*ltPlan{}
		}
		k.questions[key] = plan
	}
	plan.configs = plan.configs[:0]
	plan.status = C.ga_cublaslt_plan_ask(plan.c, C.int64_t(product.n), C.uint(aligned[0]), C.uint(aligned[1]), C.uint(aligned[2]))
	if plan.status == 0 {
		plan.read()
	}
	return plan, nil
}

// own frees the library's memory together with the plan.
func (p *ltPlan) own() {
	runtime.AddCleanup(p, func(c *C.ga_cublaslt_plan) { C.ga_cublaslt_plan_free(c) }, p.c)
}

func (p *ltPlan) read() {
	for i := range int(C.ga_cublaslt_plan_count(p.c)) {
		var c C.ga_cublaslt_config
		C.ga_cublaslt_plan_config(p.c, C.int(i), &c)
		a := kernels.Algorithm{ID: int(c.id), Tile: int(c.tile), Stages: int(c.stages), Cluster: int(c.cluster_shape),
			SplitK: int(c.split_k), Reduction: int(c.reduction), Swizzle: int(c.swizzle), Custom: int(c.custom_option),
			Inner: int(c.inner_shape)}
		p.configs = append(p.configs, ltConfig{a, float64(c.waves), int64(c.workspace)})
	}
}

// refused reports a permanent lack of algorithms. Other statuses, such as out of memory, are transient.
func (p *ltPlan) refused() bool {
	return p.status == C.GA_BLAS_NOT_SUPPORTED || p.status == statusInvalidValue
}

// choose returns the plan with the kernel's choice for a product, and the algorithm's index. ask queries the
// heuristic.
func (k *cublasLtChoice) choose(p kernels.Task, product blasProduct, aligned [3]int, ask ltAsk) (*ltPlan, int, error) {
	refuse := func(format string, args ...any) (*ltPlan, int, error) {
		return nil, 0, &kernels.Unsupported{Kernel: k.Name(), DType: p.DType, Reason: fmt.Sprintf(format, args...)}
	}
	if k.exact != (kernels.Algorithm{}) {
		plan, err := k.with(product, k.exact)
		switch {
		case err != nil:
			return nil, 0, err
		case len(plan.configs) == 0 && !plan.refused():
			return nil, 0, fmt.Errorf("%v %s: %w", p.Shape(), p.DType, blasError("set up an algorithm of cuBLASLt", plan.status))
		case len(plan.configs) == 0:
			return refuse("cuBLASLt does not take the algorithm for it (%s)", C.GoString(C.ga_blas_status(plan.status)))
		}
		return plan, 0, nil
	}
	first, err := ask(product, aligned, 1)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case len(first.configs) == 0 && !first.refused():
		return nil, 0, fmt.Errorf("%v %s: %w", p.Shape(), p.DType, blasError("ask cuBLASLt for an algorithm", first.status))
	case len(first.configs) == 0:
		return refuse("cuBLASLt has no algorithm for it (%s)%s", C.GoString(C.ga_blas_status(first.status)), ltNeeds(p.DType))
	case k.n == 0:
		return first, 0, nil
	}
	most := ltFew
	if k.n >= most {
		most = ltMany
	}
	more, err := ask(product, aligned, most)
	if err != nil {
		return nil, 0, err
	}
	if at := nextChoice(first.configs[0], more.configs, k.n); at >= 0 {
		return more, at, nil
	}
	return refuse("cuBLASLt offers %d algorithms for it", max(1, len(more.configs)))
}

type ltAsk func(product blasProduct, aligned [3]int, most int) (*ltPlan, error)

// Choice implements [kernels.Kernel] with the heuristic only.
func (k *cublasLtChoice) Choice(t kernels.Task) (kernels.Choice, error) {
	b, err := k.supports(t)
	if err != nil {
		return kernels.Choice{}, err
	}
	product := productAsked(b)
	plan, at, err := k.choose(b, product, alignedStrides(product, b.DType), k.askAgain)
	if err != nil {
		return kernels.Choice{}, err
	}
	return plan.configs[at].choice(b.M, b.N, k.dev.Arch().SMs), nil
}

// statusInvalidValue is CUBLAS_STATUS_INVALID_VALUE, which the library also returns for unsupported
// combinations of leading dimensions and types.
const statusInvalidValue = 7

// Prepare leaves B in place, except 8-bit types; it dequantizes integers.
func (k *cublasLtChoice) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	if t.Scaled() {
		return k.prepareScaled(t, raw)
	}
	if t.Quantized() {
		return prepareQuantized(k.dev, k, t, raw)
	}
	return blasWeights(k.dev, t, raw)
}

// Packs implements [kernels.Packer].
func (k *cublasLtChoice) Packs(p kernels.Task) bool { return blasPacks(p.DType) && driver.Packs(p) }

// ltCall owns the memory of one launch.
type ltCall struct {
	c    *C.ga_cublaslt_call
	plan *ltPlan // must outlive the launch
}

// Bind implements [kernels.Kernel].
func (k *cublasLtChoice) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	if t.Scaled() {
		return k.bindScaled(t, a, w, c)
	}
	if t.Quantized() {
		return bindQuantized(k.dev, k, t, a, w, c)
	}
	b, err := k.supports(t)
	if err != nil {
		return nil, err
	}
	p := b.Single()
	o, err := bindBLAS(k.dev, k.Name(), b, a, w, c)
	if err != nil {
		return nil, err
	}
	plan, at, err := k.choose(p, o.product, o.aligned(), k.ask)
	if err != nil {
		return nil, err
	}
	return k.call(p, o, plan, at, a.Buffer, w, c.Buffer)
}

// call makes the launch of a plan's algorithm. keep holds what it reads and writes.
func (k *cublasLtChoice) call(p kernels.Task, o blasOperands, plan *ltPlan, at int, keep ...any) (kernels.Launch, error) {
	call := &ltCall{(*C.ga_cublaslt_call)(C.calloc(1, C.sizeof_ga_cublaslt_call)), plan}
	*call.c = C.ga_cublaslt_call{plan: plan.c, algorithm: C.int(at), b: C.CUdeviceptr(o.b), a: C.CUdeviceptr(o.a), c: C.CUdeviceptr(o.c),
		b_scales: C.CUdeviceptr(o.bScales), a_scales: C.CUdeviceptr(o.aScales), bias: C.CUdeviceptr(o.bias),
		residual: C.CUdeviceptr(o.residual)}
	runtime.AddCleanup(call, func(c *C.ga_cublaslt_call) { C.free(unsafe.Pointer(c)) }, call.c)
	steps := append(driver.Steps(o.first), driver.Step{Enqueue: C.ga_cublaslt_enqueue, Self: unsafe.Pointer(call.c), Launches: blasKernels})
	label := plan.configs[at].label()
	name := fmt.Sprintf("%s %s %v, %+v aligned to %v, %s", k.Name(), p.DType, p.Shape(), o.product, o.aligned(), label)
	l, err := k.dev.NewLaunch(label, name, steps, append(keep, call)...)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape(), err)
	}
	l.Library, l.Tiled = blasReturned(k.Name(), p.DType), plan.configs[at].tiling()
	return l, nil
}
