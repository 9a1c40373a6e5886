package cuda

import (
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/cores"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/gemv"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/hopper"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/mma"
)

// families are our kernels for products, the best first.
var families = []gemm.Family{hopper.Family{}, mma.Family{}, gemv.Family{}, mma.WMMA{}, cores.Tiled{}, cores.Naive{}}

// fusedFamilies are those that apply an epilogue to sums in registers, the best first.
var fusedFamilies = []gemm.Family{mma.Family{}}
