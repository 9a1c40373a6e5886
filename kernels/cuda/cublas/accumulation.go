//go:build cuda

package cublas

import "C"

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

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

// FastAccumulation returns a kernel of cuBLASLt's heuristic that sums fp8 in the tensor core only, like our
// wgmma kernels. It is for comparisons at equal accuracy, and is not listed among a device's kernels.
func FastAccumulation(lt kernels.Kernel) (kernels.Kernel, error) {
	k, ok := lt.(*cublasLtChoice)
	if !ok {
		return nil, fmt.Errorf("%s is no kernel of cuBLASLt: only that has fast accumulation", lt.Name())
	}
	fast := &cublasLt{dev: k.dev, kernel: k.kernel + "-fast", lib: k.lib, about: k.about, sums: k.sums, fp8: sumsFast}
	return &cublasLtChoice{cublasLt: fast, n: k.n, exact: k.exact}, nil
}
