//go:build cuda

package cublas

import "C"

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// fp8Sums says how cuBLASLt may add up products of fp8. Hopper's tensor cores keep fewer bits of a sum than fp32 has,
// so the library moves partial sums to fp32 registers as they grow, unless it may not spend the time.
type fp8Sums bool

// PyTorch's scaled products come without fast accumulation unless they are asked for it.
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

// FastAccumulation is a kernel of cuBLASLt's heuristic with fp8 summed up in the tensor core alone, as our kernels of
// wgmma sum it up. It is for comparisons at equal accuracy, and not among a device's kernels.
func FastAccumulation(lt kernels.Gemm) (kernels.Gemm, error) {
	k, ok := lt.(*cublasLtChoice)
	if !ok {
		return nil, fmt.Errorf("%s is no kernel of cuBLASLt: only that has fast accumulation", lt.Name())
	}
	fast := &cublasLt{dev: k.dev, kernel: k.kernel + "-fast", lib: k.lib, about: k.about, sums: k.sums, fp8: sumsFast}
	return &cublasLtChoice{cublasLt: fast, n: k.n, exact: k.exact}, nil
}
