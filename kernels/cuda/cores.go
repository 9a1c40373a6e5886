package cuda

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// What the kernels that take one tile a block have in common: which types an
// architecture has, what their indices can hold, and how tiles fill a GPU.

// typeReason says why an architecture lacks a type, empty when it has it. fp8 and bf16
// would need a conversion in software that costs more than the product.
func typeReason(a arch, d kernels.DType) string {
	least := map[kernels.DType]int{kernels.BF16: 80, kernels.TF32: 80, kernels.FP8: 89}[d]
	if a.cc < least {
		return fmt.Sprintf("%s needs compute capability %d.%d, this GPU has %d.%d", d, least/10, least%10, a.cc/10, a.cc%10)
	}
	return ""
}

// largestExtent bounds M, N and K: kernels round them up to tiles in 32 bits.
const largestExtent = math.MaxInt32 - 1024

// sizeReason says why a product can't be indexed with tiles of m × n, empty when it can.
func sizeReason(p kernels.Problem, m, n int) string {
	if max(p.M, p.N, p.K) > largestExtent {
		return fmt.Sprintf("an extent is beyond %d", largestExtent)
	}
	if tiles := int64(divideUp(p.M, m)) * int64(divideUp(p.N, n)); tiles > math.MaxInt32 {
		return fmt.Sprintf("%d tiles are more than a grid holds", tiles)
	}
	return ""
}

// coreRate is how many multiply-adds the CUDA cores of one multiprocessor do in a cycle:
// dp4a instructions, of four each, for int8, and fp32 for every other type.
func coreRate(a arch, d kernels.DType) float64 {
	switch {
	case d == kernels.INT8:
		return 4 * 64
	case a.cc < 86: // 7.5 and 8.0
		return 64
	}
	return 128
}

// waveSeconds is how long tiles blocks take on a GPU that runs perSM of them at a time on
// each multiprocessor, when one alone takes aloneCycles and one among perSM neighbours
// sharedCycles. The blocks of the last wave share with fewer.
func waveSeconds(a arch, tiles, perSM int, aloneCycles, sharedCycles float64) float64 {
	waves, rest := tiles/(perSM*a.sms), tiles%(perSM*a.sms)
	cycles := float64(waves) * sharedCycles
	if rest > 0 {
		neighbours := float64(divideUp(rest, a.sms)) / float64(perSM)
		cycles += max(aloneCycles, sharedCycles*neighbours)
	}
	return cycles / (a.clockMHz * 1e6)
}

// memorySeconds is the least time that the product's bytes take: each operand from
// memory once, and C.
func memorySeconds(a arch, p kernels.Problem) float64 {
	if a.bandwidth <= 0 {
		return 0
	}
	const reached = 0.9 // of the data sheet's figure, by good kernels
	return p.Shape.Bytes(p.DType) / (a.bandwidth * reached)
}

// launchSeconds is what a launch costs that does nothing, inside of a graph.
const launchSeconds = 2e-6
