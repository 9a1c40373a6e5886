package cublas

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// blasProduct is a product for cuBLAS, which is column-major. The row-major C = A·B is computed as Cᵀ =
// Bᵀ·Aᵀ, because a row-major matrix is its own transpose in column-major storage. The library's first operand
// is our B, its second our A, and its m and n are our N and M.
type blasProduct struct {
	transposed          bool // the first operand is transposed: B lies with K contiguous
	m, n, k             int
	ldb, lda, ldc       int
	in, out             int // cudaDataType
	compute, scaleTypes int // cublasComputeType_t, and cudaDataType of alpha and beta
	// products is the batch size, 0 for a single product; the strides are elements between consecutive
	// products' operands.
	products, strideB, strideA, strideC int
	scales                              blasScales
	epilogue                            int // cublasLtEpilogue_t, 0 for none
}

// Values of cudaDataType and cublasComputeType_t.
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

// blasProductOf converts the normalized p with its B at a row distance of ldb elements; transposed means that
// these rows run along K.
func blasProductOf(p kernels.Task, ldb int, transposed bool) blasProduct {
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

// blasPacks reports whether the libraries need a type's B packed. 8-bit types need K contiguous on both sides
// (fp8 supports nothing else), and engines with quantized weights store them that way. All other types are
// read in place.
func blasPacks(d kernels.DType) bool { return d.Size() == 1 }

// blasWorkspaceBytes returns PyTorch's workspace size: 32 MiB from Hopper on, before that the sum of its
// default configuration ":4096:2:16:8".
func blasWorkspaceBytes(a planning.Arch) int64 {
	if a.CC >= 90 {
		return 32 << 20
	}
	return (2*4096 + 8*16) << 10
}

func blasWorkspace(a planning.Arch) string {
	if bytes := blasWorkspaceBytes(a); bytes%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d KiB", blasWorkspaceBytes(a)>>10)
}

// leastFP8 is the compute capability × 10 that fp8 needs.
const leastFP8 = 89

func blasRefusal(a planning.Arch, p kernels.Task) string {
	needs := map[kernels.DType]int{kernels.TF32: 80, kernels.BF16: 80, kernels.FP8: leastFP8}[p.DType]
	if a.CC < needs {
		return fmt.Sprintf("it needs compute capability %d.%d, this GPU has %d.%d", needs/10, needs%10, a.CC/10, a.CC%10)
	}
	return ""
}

func cublasRefusal(a planning.Arch, p kernels.Task) string {
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

// ltNeeds returns cuBLASLt's documented requirements for a type's operands, for the message when the
// heuristic has no algorithm.
func ltNeeds(d kernels.DType) string {
	switch d {
	case kernels.FP8:
		return "; fp8 needs N, K and addresses that are multiples of 16"
	case kernels.INT8:
		return "; int8 needs N, K, lda and addresses that are multiples of 4"
	}
	return ""
}

// addressAlignment returns the largest power of two, at most 256, that divides an address.
func addressAlignment(address uint64) int {
	return int(min(256, (address|256)&-(address|256)))
}
