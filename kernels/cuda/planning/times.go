package planning

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
)

// What the kernels that take one tile a block have in common: which types an
// architecture has, what their indices can hold, and how tiles fill a GPU.

// TypeReason says why an architecture lacks a type, empty when it has it. fp8 and bf16
// would need a conversion in software that costs more than the product.
func TypeReason(a Arch, d kernels.DType) string {
	least := map[kernels.DType]int{kernels.BF16: 80, kernels.TF32: 80, kernels.FP8: 89}[d]
	if a.CC < least {
		return fmt.Sprintf("%s needs compute capability %d.%d, this GPU has %d.%d", d, least/10, least%10, a.CC/10, a.CC%10)
	}
	return ""
}

// LargestExtent bounds M, N and K: kernels round them up to tiles in 32 bits.
const LargestExtent = math.MaxInt32 - 1024

// SizeReason says why a product can't be indexed with tiles of m × n, empty when it can.
func SizeReason(p kernels.Problem, m, n int) string {
	if max(p.M, p.N, p.K) > LargestExtent {
		return fmt.Sprintf("an extent is beyond %d", LargestExtent)
	}
	if tiles := int64(DivideUp(p.M, m)) * int64(DivideUp(p.N, n)); tiles > math.MaxInt32 {
		return fmt.Sprintf("%d tiles are more than a grid holds", tiles)
	}
	return ""
}

// CoreRate is how many multiply-adds the CUDA cores of one multiprocessor do in a cycle:
// dp4a instructions, of four each, for int8, and fp32 for every other type.
func CoreRate(a Arch, d kernels.DType) float64 {
	switch {
	case d == kernels.INT8:
		return 4 * 64
	case a.CC < 86: // 7.5 and 8.0
		return 64
	}
	return 128
}

// WaveSeconds is how long tiles blocks take on a GPU that runs perSM of them at a time on
// each multiprocessor, when a single one takes latencyCycles and one among perSM neighbours
// sharedCycles. The blocks of the last wave share with fewer.
func WaveSeconds(a Arch, tiles, perSM int, latencyCycles, sharedCycles float64) float64 {
	waves, rest := tiles/(perSM*a.SMs), tiles%(perSM*a.SMs)
	cycles := float64(waves) * sharedCycles
	if rest > 0 {
		neighbours := float64(DivideUp(rest, a.SMs)) / float64(perSM)
		cycles += max(latencyCycles, sharedCycles*neighbours)
	}
	return cycles / (a.ClockMHz * 1e6)
}

// Waves is how many times blocks fill a GPU that runs perSM of them at a time on each
// multiprocessor.
func Waves(a Arch, blocks, perSM int) float64 { return float64(blocks) / float64(perSM*a.SMs) }

// MemorySeconds is the least time that the product's bytes take: each operand from
// memory once, and C.
func MemorySeconds(a Arch, p kernels.Problem) float64 {
	if a.Bandwidth <= 0 {
		return 0
	}
	return p.Shape.Bytes(p.DType) / (a.Bandwidth * common.For(a.CC, a.SMs, a.Bandwidth).Memory)
}

// LaunchSeconds is what a launch costs that does nothing, inside of a graph.
func LaunchSeconds(a Arch) float64 { return common.For(a.CC, a.SMs, a.Bandwidth).Launch }

// TensorClocks is how many clocks the tensor cores of an SM take for a product of 16×8
// outputs, 32 bytes deep, accumulating in fp32 or int32: measured on 9.0, where wgmma
// takes 1, elsewhere what the vendor says of cards that don't halve the rate for fp32.
func TensorClocks(a Arch, d kernels.DType) float64 {
	switch {
	case a.CC == 80:
		return 2
	case a.CC >= 90 && a.CC < 120 && d == kernels.INT8:
		return 1.65
	case a.CC >= 90 && a.CC < 120:
		return 1.85
	}
	return 4
}

// Norm is the p-norm of the times of resources that overlap: the nearer two are to each other, the less they do.
func Norm(p float64, times ...float64) float64 {
	sum := 0.
	for _, t := range times {
		sum += math.Pow(t, p)
	}
	return math.Pow(sum, 1/p)
}

// L2PerClock is how many bytes L2 gives each multiprocessor in a cycle.
func L2PerClock(a Arch) float64 { return common.For(a.CC, a.SMs, a.Bandwidth).L2 }

// commonModel is the constants of several models.
type commonModel struct {
	// Launch is what a launch costs that does nothing, inside of a graph.
	Launch float64 `constant:"launch" unit:"s"`
	// Memory is the part of the bandwidth of the data sheet that good kernels reach.
	Memory float64 `constant:"memory" unit:"1"`
	// L2 is how many bytes L2 gives each multiprocessor in a cycle.
	L2 float64 `constant:"l2" unit:"B/cycle"`
}

var common = calibration.Of[commonModel]("common")
