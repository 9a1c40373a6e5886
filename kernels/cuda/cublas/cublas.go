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

// splitSums says how the libraries may keep what parts of K add up to, where they
// split K.
type splitSums bool

// PyTorch's default lets the library round such sums to fp16 or bf16; then what is
// measured would not accumulate in fp32, as every kernel here does and the gate
// demands. Where the library does not split K, which is wherever M or N fill the
// GPU, the two settings choose alike.
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
	names   map[string]string    // of the kernels that were chosen, by plan
	asked   *askedCall           // of Choice, nil before the first
	tellers []*cublas            // that tell what this one does
	loading *sync.Mutex          // held by the teller that runs something, shared by all
}

func (k *cublas) Name() string { return k.kernel }

func (k *cublas) Describe() string {
	return fmt.Sprintf("%s, cublasGemmEx with its default choice, %s of workspace, %v",
		k.about, blasWorkspace(k.dev.Arch()), k.sums)
}

func (k *cublas) Supports(p kernels.Problem) error {
	return k.SupportsBatch(kernels.Batch{Problem: p})
}

// SupportsBatch implements [kernels.Batcher].
func (k *cublas) SupportsBatch(b kernels.Batch) error {
	return blasSupports(k.Name(), b, func(p kernels.Problem) string { return cublasRefusal(k.dev.Arch(), p) })
}

// blasSupports turns the reason that why has against the products of a batch, or against a
// single one, into an error.
func blasSupports(kernel string, b kernels.Batch, why func(kernels.Problem) string) error {
	q, err := normalize(b)
	if err != nil {
		return &kernels.Unsupported{Kernel: kernel, DType: b.DType, Reason: err.Error()}
	}
	if reason := cmp.Or(why(q.Problem), batchRefusal(q)); reason != "" {
		return &kernels.Unsupported{Kernel: kernel, DType: q.DType, Reason: reason}
	}
	return nil
}

// PrepareWeights leaves B where it is, but for int8.
func (k *cublas) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	return k.PrepareBatch(kernels.Batch{Problem: p}, raw)
}

// PrepareBatch implements [kernels.Batcher].
func (k *cublas) PrepareBatch(b kernels.Batch, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.SupportsBatch(b); err != nil {
		return nil, err
	}
	return blasWeights(k.dev, b, raw)
}

// Packs implements [kernels.Packer].
func (k *cublas) Packs(p kernels.Problem) bool { return blasPacks(p.DType) && driver.Packs(p) }

// blasWeights brings B, of every product of a batch, into the form that the libraries read.
func blasWeights(d *driver.Device, b kernels.Batch, raw kernels.Buffer) (kernels.Weights, error) {
	b, err := normalize(b)
	if err != nil {
		return nil, err
	}
	p, _ := stackedB(b)
	if blasPacks(p.DType) {
		w, err := d.Pack(p, raw)
		if err != nil {
			return nil, err // a nil *PackedWeights would be weights that aren't nil
		}
		return w, nil
	}
	w, err := d.KeepRaw(p, raw)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// blasOperands are a product with the addresses of its operands.
type blasOperands struct {
	product blasProduct
	dtype   kernels.DType
	b, a, c uint64
	first   []planning.Call // the packing of B where each launch does it
}

// bindBLAS finds the operands of a normalized batch or a single product.
func bindBLAS(d *driver.Device, kernel string, b kernels.Batch, a kernels.Operand, w kernels.Weights, c kernels.Operand) (o blasOperands, err error) {
	p := b.Problem
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
		o.product = blasProductOf(p, p.LDB, p.BLayout == kernels.Transposed).batched(b, b.StrideB)
	}
	// matrix looks at the last product's operand and returns the address of the first.
	matrix := func(name string, at kernels.Operand, cols, ld, stride int, t kernels.DType) (uint64, error) {
		behind := max(0, b.Products-1) * stride
		address, err := d.Matrix(name, kernels.Operand{Buffer: at.Buffer, Offset: at.Offset + behind}, p.M, cols, ld, t)
		if err != nil {
			return 0, fmt.Errorf("%v: %w", p.Shape, err)
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

// aligned names how the operands' addresses are aligned, on which the library's choice
// depends: those of every product of a batch.
func (o blasOperands) aligned() [3]int {
	s := alignedStrides(o.product, o.dtype)
	return [3]int{min(s[0], addressAlignment(o.b)), min(s[1], addressAlignment(o.a)), min(s[2], addressAlignment(o.c))}
}

// gemm is the product as the C side has it.
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
	return g
}

// blasKernels is how many kernels a call of either library launches at most: the
// product and the sum over its parts of K.
const blasKernels = 2

// withWorkspace lets open make a session of a library with the workspace that both
// share; open returns false, and the library's status, when it can't. free gives the session
// back when the device is closed.
func withWorkspace(d *driver.Device, library string, open func(workspace C.CUdeviceptr, bytes C.size_t, status *C.int) bool, free func()) error {
	bytes := blasWorkspaceBytes(d.Arch())
	workspace, err := d.Scratch(bytes)
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

// open makes the session on first use; handles cost time and memory, and a device is
// often opened only to be looked at.
func (k *cublas) open() error {
	if k.session != nil {
		return nil
	}
	return withWorkspace(k.dev, "cuBLAS", func(workspace C.CUdeviceptr, bytes C.size_t, status *C.int) bool {
		k.session = C.ga_cublas_session_new(k.lib, workspace, bytes, k.sums.mathMode(), status)
		return k.session != nil
	}, func() {
		C.ga_cublas_session_free(k.session)
		k.session, k.asked, k.tellers = nil, nil, nil
	})
}

// cublasCall owns the memory of one launch, which a cleanup frees once nothing refers
// to the launch any more.
type cublasCall struct{ c *C.ga_cublas_call }

func (k *cublas) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	return k.BindBatch(kernels.Batch{Problem: p}, a, w, c)
}

// BindBatch implements [kernels.Batcher] by cublasGemmStridedBatchedEx; a batch without
// products is a single one, by cublasGemmEx.
func (k *cublas) BindBatch(b kernels.Batch, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := k.SupportsBatch(b); err != nil {
		return nil, err
	}
	b, err := normalize(b)
	if err != nil {
		return nil, err
	}
	p := b.Problem
	o, err := bindBLAS(k.dev, k.Name(), b, a, w, c)
	if err != nil {
		return nil, err
	}
	if at := o.aligned(); p.DType == kernels.INT8 && min(at[1], at[2]) < 4 {
		return nil, &kernels.Unsupported{Kernel: k.Name(), DType: p.DType, Reason: "cublasGemmEx takes int8 at addresses that are multiples of 4"}
	}
	if err := k.open(); err != nil {
		return nil, err
	}
	call := &cublasCall{(*C.ga_cublas_call)(C.calloc(1, C.sizeof_ga_cublas_call))}
	*call.c = C.ga_cublas_call{on: k.session, gemm: o.product.gemm(), b: C.CUdeviceptr(o.b), a: C.CUdeviceptr(o.a), c: C.CUdeviceptr(o.c)}
	runtime.AddCleanup(call, func(c *C.ga_cublas_call) { C.free(unsafe.Pointer(c)) }, call.c)
	steps := append(driver.Steps(o.first), driver.Step{Enqueue: C.ga_cublas_enqueue, Self: unsafe.Pointer(call.c), Launches: blasKernels})
	plan := fmt.Sprintf("%s %s %v, %+v aligned to %v", k.kernel, p.DType, p.Shape, o.product, o.aligned())
	l, err := k.dev.NewLaunch("", plan, steps, call, a.Buffer, w, c.Buffer)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape, err)
	}
	l.Library, l.Named = blasReturned(k.Name(), p.DType), k.name
	return l, nil
}

// name is the kernel that the library chose for a product, with what its name says of the
// launch. The library does not tell, but the graph does that a call is captured into.
func (k *cublas) name(l *driver.Launch) (string, kernels.Tiling) {
	name, ok := k.names[l.Plan]
	if !ok {
		if name = k.dev.KernelNames(l); name == "" {
			return "", kernels.Tiling{}
		}
		if k.names == nil {
			k.names = map[string]string{}
		}
		k.names[l.Plan] = name
	}
	return namedTiling(name)
}

// blasReturned words what a call of the libraries returned. Of what they don't support
// only the call itself tells.
func blasReturned(kernel string, d kernels.DType) func(code int) error {
	return func(code int) error {
		err := blasError(kernel, C.int(code))
		if code == C.GA_BLAS_NOT_SUPPORTED {
			return &kernels.Unsupported{Kernel: kernel, DType: d, Reason: err.Error()}
		}
		return err
	}
}
