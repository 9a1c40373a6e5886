//go:build cuda

package cublas

// #include "cublas.h"
import "C"

import (
	"cmp"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// splitSums is the libraries' precision for partial sums of split K.
type splitSums bool

// PyTorch's default allows fp16 or bf16 partial sums. The measured product would then not accumulate in fp32,
// as all kernels here do and the gate requires. Without split K, which is if M or N fill the GPU, both
// settings choose the same kernel.
const (
	sumsInFP32  splitSums = false
	sumsRounded splitSums = true
)

func (s splitSums) mathMode() C.int {
	if s == sumsRounded {
		return C.GA_CUBLAS_MATH_DEFAULT
	}
	return C.GA_CUBLAS_MATH_FULL_REDUCTION
}

func (s splitSums) reductions() C.int {
	if s == sumsRounded {
		return C.GA_CUBLASLT_REDUCE_ANY
	}
	return C.GA_CUBLASLT_REDUCE_FULL
}

func (s splitSums) String() string {
	if s == sumsRounded {
		return "split-K summed in the output's type where that is faster"
	}
	return "split-K summed in fp32"
}

// cublas is cublasGemmEx with the library's own choice of a kernel, called as
// PyTorch's matmul calls it.
type cublas struct {
	dev     *driver.Device
	kernel  string // its name
	lib     *C.ga_cublas
	about   string
	sums    splitSums
	session *C.ga_cublas_session // nil before the first product
	asked   *askedCall           // for Choice, nil before its first call
	tellers []*cublas            // parallel tellers for Choice
	loading *sync.Mutex          // held while a teller runs a product, shared by all
	lane    int                  // of [driver.Device.Fork]; launches of different lanes may run at the same time
}

func (k *cublas) Name() string { return k.kernel }

func (k *cublas) Describe() string {
	return fmt.Sprintf("%s, cublasGemmEx with its default choice, %s of workspace, %v",
		k.about, blasWorkspace(k.dev.Arch()), k.sums)
}

// Supports implements [kernels.Kernel].
func (k *cublas) Supports(t kernels.Task) error {
	if t.Quantized() {
		return supportsQuantized(k.dev, k, t)
	}
	_, err := blasSupports(k.Name(), t, func(p kernels.Task) string { return cublasRefusal(k.dev.Arch(), p) })
	return err
}

// blasSupports returns the normalized task if a library may run it with plain weights.
func blasSupports(kernel string, t kernels.Task, why func(kernels.Task) string) (kernels.Task, error) {
	q, err := t.Product(kernel, kernels.Batches)
	if err != nil {
		return t, err
	}
	if reason := cmp.Or(why(q), batchRefusal(q)); reason != "" {
		return t, t.Unsupported(kernel, reason)
	}
	return q, nil
}

// Prepare leaves B in place, except int8; it dequantizes integers.
func (k *cublas) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	if t.Quantized() {
		return prepareQuantized(k.dev, k, t, raw)
	}
	return blasWeights(k.dev, t, raw)
}

// Packs implements [kernels.Packer].
func (k *cublas) Packs(p kernels.Task) bool { return blasPacks(p.DType) && driver.Packs(p) }

func blasWeights(d *driver.Device, b kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	b, err := b.Normalized()
	if err != nil {
		return nil, err
	}
	p, _ := stackedB(b)
	if blasPacks(p.DType) {
		w, err := d.Pack(p, raw)
		if err != nil {
			return nil, err // a nil *PackedWeights in the interface would not be nil
		}
		return w, nil
	}
	w, err := d.KeepRaw(p, raw)
	if err != nil {
		return nil, err
	}
	return w, nil
}

type blasOperands struct {
	product blasProduct
	dtype   kernels.DType
	b, a, c uint64
	first   []planning.Call // the packing of B, if each launch packs
	// bScales and aScales are addresses of scales, bias and residual those of an epilogue; 0 without.
	bScales, aScales, bias, residual uint64
}

func bindBLAS(d *driver.Device, kernel string, b kernels.Task, a kernels.Operand, w kernels.Weights,
	c kernels.Operand) (o blasOperands, err error) {
	p := b.Single()
	stack, strideRows := stackedB(b)
	if blasPacks(p.DType) {
		packed, first, err := d.BindPacked(kernel, stack, w)
		if err != nil {
			return o, err
		}
		o.b, o.first = packed.Address, first
		o.product = blasProductOf(p, packed.LDB, true).batched(b, strideRows*packed.LDB)
	} else {
		if o.b, err = d.BindRaw(kernel, stack, w); err != nil {
			return o, err
		}
		o.product = blasProductOf(p, p.LDB, p.Layout == kernels.Transposed).batched(b, b.StrideB)
	}
	// matrix checks the last product's operand and returns the first's address.
	matrix := func(name string, at kernels.Operand, cols, ld, stride int, t kernels.DType) (uint64, error) {
		behind := max(0, b.Products-1) * stride
		address, err := d.Matrix(name, kernels.Operand{Buffer: at.Buffer, Offset: at.Offset + behind}, p.M, cols, ld, t)
		if err != nil {
			return 0, fmt.Errorf("%v: %w", p.Shape(), err)
		}
		return address - uint64(behind)*uint64(t.Size()), nil
	}
	if o.a, err = matrix("A", a, p.K, p.LDA, b.StrideA, p.DType); err != nil {
		return o, err
	}
	o.c, err = matrix("C", c, p.N, p.LDC, b.StrideC, p.DType.Output())
	o.dtype = p.DType
	return o, err
}

// aligned returns the alignment of the operands' addresses over all products, which the library's choice
// depends on.
func (o blasOperands) aligned() [3]int {
	s := alignedStrides(o.product, o.dtype)
	return [3]int{min(s[0], addressAlignment(o.b)), min(s[1], addressAlignment(o.a)), min(s[2], addressAlignment(o.c|o.residual))}
}

func (b blasProduct) gemm() C.ga_blas_gemm {
	g := C.ga_blas_gemm{
		m: C.int64_t(b.m), n: C.int64_t(b.n), k: C.int64_t(b.k),
		ldb: C.int64_t(b.ldb), lda: C.int64_t(b.lda), ldc: C.int64_t(b.ldc),
		products: C.int64_t(b.products), stride_b: C.int64_t(b.strideB), stride_a: C.int64_t(b.strideA), stride_c: C.int64_t(b.strideC),
		in: C.int(b.in), out: C.int(b.out), compute: C.int(b.compute), scale: C.int(b.scaleTypes),
	}
	if b.transposed {
		g.b_transposed = 1
	}
	g.b_scales, g.a_scales, g.epilogue = C.int(b.scales.b), C.int(b.scales.a), C.int(b.epilogue)
	return g
}

// blasKernels is the maximum kernels per call of either library: the product and the sum over parts of K.
const blasKernels = 2

// withWorkspace calls open to create a library session with the workspace of a lane; open returns false and sets
// status on failure. free destroys the session when the device is closed.
func withWorkspace(d *driver.Device, lane int, library string, open func(workspace C.CUdeviceptr, bytes C.size_t, status *C.int) bool,
	free func()) error {
	bytes := blasWorkspaceBytes(d.Arch())
	workspace, err := d.LaneScratch(lane, bytes)
	if err != nil {
		return err
	}
	leave, err := d.Enter()
	if err != nil {
		return err
	}
	defer leave()
	var status C.int
	if !open(C.CUdeviceptr(workspace), C.size_t(bytes), &status) {
		return blasError(d.Spec().ID+": open "+library, status)
	}
	d.OnClose(func() error {
		free()
		return nil
	})
	return nil
}

// open creates the session on first use: handles are costly, and devices are often opened only for
// inspection.
func (k *cublas) open() error {
	if k.session != nil {
		return nil
	}
	return withWorkspace(k.dev, k.lane, "cuBLAS", func(workspace C.CUdeviceptr, bytes C.size_t, status *C.int) bool {
		k.session = C.ga_cublas_session_new(k.lib, workspace, bytes, k.sums.mathMode(), status)
		return k.session != nil
	}, func() {
		C.ga_cublas_session_free(k.session)
		k.session, k.asked, k.tellers = nil, nil, nil
	})
}

// cublasCall owns one launch's memory; a cleanup frees it.
type cublasCall struct{ c *C.ga_cublas_call }

// Bind implements [kernels.Kernel] by cublasGemmEx, and for batches cublasGemmStridedBatchedEx.
func (k *cublas) Bind(b kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	if b.Quantized() {
		return bindQuantized(k.dev, k, b, a, w, c)
	}
	if err := k.Supports(b); err != nil {
		return nil, err
	}
	b, err := b.Normalized()
	if err != nil {
		return nil, err
	}
	p := b.Single()
	o, err := bindBLAS(k.dev, k.Name(), b, a, w, c)
	if err != nil {
		return nil, err
	}
	if at := o.aligned(); p.DType == kernels.INT8 && min(at[1], at[2]) < 4 {
		return nil,
			&kernels.Unsupported{Kernel: k.Name(), DType: p.DType, Reason: "cublasGemmEx takes int8 at addresses that are multiples of 4"}
	}
	if err := k.open(); err != nil {
		return nil, err
	}
	call := &cublasCall{(*C.ga_cublas_call)(C.calloc(1, C.sizeof_ga_cublas_call))}
	*call.c = C.ga_cublas_call{on: k.session, gemm: o.product.gemm(), b: C.CUdeviceptr(o.b), a: C.CUdeviceptr(o.a), c: C.CUdeviceptr(o.c)}
	runtime.AddCleanup(call, func(c *C.ga_cublas_call) { C.free(unsafe.Pointer(c)) }, call.c)
	steps := append(driver.Steps(o.first), driver.Step{Enqueue: C.ga_cublas_enqueue, Self: unsafe.Pointer(call.c), Launches: blasKernels})
	plan := fmt.Sprintf("%s %s %v, %+v aligned to %v", k.kernel, p.DType, p.Shape(), o.product, o.aligned())
	l, err := k.dev.NewLaunch("", plan, steps, call, a.Buffer, w, c.Buffer)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape(), err)
	}
	l.Library, l.Named = blasReturned(k.Name(), p.DType), k.name
	return l, nil
}

// name returns the library's kernel for a product, and the tiling from its name.
func (k *cublas) name(l *driver.Launch) (string, kernels.Tiling) {
	return kernels.ReadLabel(k.dev.KernelNames(l))
}

// blasReturned describes a return code of the libraries; only the call itself reports unsupported products.
func blasReturned(kernel string, d kernels.DType) func(code int) error {
	return func(code int) error {
		err := blasError(kernel, C.int(code))
		if code == C.GA_BLAS_NOT_SUPPORTED {
			return &kernels.Unsupported{Kernel: kernel, DType: d, Reason: err.Error()}
		}
		return err
	}
}
