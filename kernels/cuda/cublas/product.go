package cublas

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// blasProduct is a product as cuBLAS takes it. There everything is column-major, so
// the row-major C = A·B is asked for as Cᵀ = Bᵀ·Aᵀ: a row-major matrix is its own
// transpose in column-major storage. The library's first operand is our B, its
// second our A, and its m and n are our N and M.
type blasProduct struct {
	transposed          bool // the first operand is transposed: B lies with K contiguous
	m, n, k             int
	ldb, lda, ldc       int
	in, out             int // cudaDataType
	compute, scaleTypes int // cublasComputeType_t, and cudaDataType of alpha and beta
	// products is how many a batch has, 0 where it is none; the strides are the elements
	// from one product's operand to the next one's.
	products, strideB, strideA, strideC int
}

// The types of the library's interface that are used: cudaDataType and
// cublasComputeType_t.
const (
	blasFP32 = 0
	blasFP16 = 2
	blasINT8 = 3
	blasI32  = 10
	blasBF16 = 14
	blasE4M3 = 28

	blasComputeFP32 = 68
	blasComputeI32  = 72
	blasComputeTF32 = 77
)

// blasProductOf is the normalized p with its B at a row distance of ldb elements, as
// the library takes it; transposed says that these rows run along K.
func blasProductOf(p kernels.Problem, ldb int, transposed bool) blasProduct {
	b := blasProduct{
		transposed: transposed, m: p.N, n: p.M, k: p.K, ldb: ldb, lda: p.LDA, ldc: p.LDC,
		in: blasFP32, out: blasFP32, compute: blasComputeFP32, scaleTypes: blasFP32,
	}
	switch p.DType {
	case kernels.TF32:
		b.compute = blasComputeTF32
	case kernels.FP16:
		b.in, b.out = blasFP16, blasFP16
	case kernels.BF16:
		b.in, b.out = blasBF16, blasBF16
	case kernels.FP8:
		b.in, b.out = blasE4M3, blasBF16
	case kernels.INT8:
		b.in, b.out, b.compute, b.scaleTypes = blasINT8, blasI32, blasComputeI32, blasI32
	}
	return b
}

// blasPacks says whether the libraries read a type's B in the packed form. Types of
// 8 bits come with K contiguous on both sides or, fp8, not at all; an engine that
// quantises its weights stores them that way. All other types are read as they are.
func blasPacks(d kernels.DType) bool { return d.Size() == 1 }

// blasWorkspaceBytes is the workspace that PyTorch gives the libraries: 32 MiB from
// Hopper on, before that what its default configuration ":4096:2:16:8" adds up to.
func blasWorkspaceBytes(a planning.Arch) int64 {
	if a.CC >= 90 {
		return 32 << 20
	}
	return (2*4096 + 8*16) << 10
}

// blasWorkspace is the size of the workspace for people.
func blasWorkspace(a planning.Arch) string {
	if bytes := blasWorkspaceBytes(a); bytes%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d KiB", blasWorkspaceBytes(a)>>10)
}

// blasRefusal is why a GPU can't run a normalized problem by either library, empty
// when nothing speaks against it.
func blasRefusal(a planning.Arch, p kernels.Problem) string {
	needs := map[kernels.DType]int{kernels.TF32: 80, kernels.BF16: 80, kernels.FP8: 89}[p.DType]
	if a.CC < needs {
		return fmt.Sprintf("it needs compute capability %d.%d, this GPU has %d.%d", needs/10, needs%10, a.CC/10, a.CC%10)
	}
	return ""
}

// cublasRefusal is why cublasGemmEx can't run a normalized problem.
func cublasRefusal(a planning.Arch, p kernels.Problem) string {
	if why := blasRefusal(a, p); why != "" {
		return why
	}
	switch {
	case p.DType == kernels.FP8:
		return "cublasGemmEx does not take fp8, cublaslt does"
	case max(p.M, p.N, p.K, p.LDA, p.LDB, p.LDC) > math.MaxInt32:
		return "its interface has 32-bit dimensions"
	case p.DType == kernels.INT8 && p.LDA%4 != 0:
		return fmt.Sprintf("cublasGemmEx takes int8 with rows at multiples of 4 bytes: lda is %d", p.LDA)
	}
	return ""
}

// ltNeeds is what cuBLASLt's documentation demands of a type's operands, in words, for
// the refusal of a product for which its heuristic has nothing.
func ltNeeds(d kernels.DType) string {
	switch d {
	case kernels.FP8:
		return "; fp8 needs N, K and addresses that are multiples of 16"
	case kernels.INT8:
		return "; int8 needs N, K, lda and addresses that are multiples of 4"
	}
	return ""
}

// addressAlignment is the largest power of two, at most 256, that divides an address.
func addressAlignment(address uint64) int {
	return int(min(256, (address|256)&-(address|256)))
}
