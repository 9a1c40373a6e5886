//go:build cuda

package cublas

import "C"

import "github.com/gemmaudit/gemmaudit/kernels"

// fp8Sums is cuBLASLt's accumulation mode for fp8. Hopper's tensor cores keep fewer bits than fp32, so the
// library promotes partial sums to fp32 registers periodically, unless fast accumulation is set.
type fp8Sums bool

// PyTorch's scaled products have fast accumulation off by default.
const (
	sumsPromoted fp8Sums = false
	sumsFast     fp8Sums = true
)

func (s fp8Sums) fast() C.int {
	if s == sumsFast {
		return 1
	}
	return 0
}

func (s fp8Sums) String() string {
	if s == sumsFast {
		return "with fast accumulation"
	}
	return "without fast accumulation"
}

// fastKernel makes the kernel of a cuBLASLt with fast accumulation, for comparisons with kernels that sum in the
// tensor core only, as ours do. It is nil on a GPU without fp8.
func fastKernel(lt *cublasLt) kernels.Kernel {
	if lt.dev.Arch().CC < leastFP8 {
		return nil
	}
	name := kernels.VariantName(lt.kernel, "fast")
	return &cublasLtChoice{cublasLt: &cublasLt{dev: lt.dev, kernel: name, lib: lt.lib, about: lt.about, sums: lt.sums, fp8: sumsFast}}
}

// refusal returns why a mode of accumulation is not measured for a type, or "": other types have one mode only.
func (s fp8Sums) refusal(d kernels.DType) string {
	if s == sumsFast && d != kernels.FP8 {
		return "fast accumulation is for fp8: cublaslt runs the same kernels"
	}
	return ""
}
