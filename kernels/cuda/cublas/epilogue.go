package cublas

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Values of cublasLtEpilogue_t. A bias is a bit that the activations take.
const (
	ltNoEpilogue = 1
	ltReLU       = 2
	ltBias       = 4
	ltGELU       = 32 // by tanh
)

// ltEpilogue returns the library's epilogue, or why it lacks it. Its matrices are column-major: the bias of its rows is that of
// our columns. A residual is its C, with a factor of 1.
func ltEpilogue(e kernels.Epilogue, d kernels.DType) (epilogue int, why string) {
	of := map[kernels.Epilogue]int{0: ltNoEpilogue, kernels.ReLU: ltReLU, kernels.TanhGELU: ltGELU, kernels.Residual: ltNoEpilogue}
	epilogue, ok := of[e.Step()]
	switch {
	case !ok && e.Step() == kernels.GELU:
		return 0, "its gelu is gelu-tanh"
	case e.Step() == kernels.TanhGELU && d.Size() > 2:
		// Of version 13.1, as measured on an H200.
		return 0, "its tanh is off by 3e-6, more than sums of fp32"
	case !ok:
		return 0, fmt.Sprintf("its epilogues are bias, relu, gelu-tanh and residual, not %v", e.Step())
	case e.HasBias():
		epilogue = epilogue&^ltNoEpilogue | ltBias
	}
	return epilogue, ""
}
