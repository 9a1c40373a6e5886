package planning

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
)

// TypeReason returns why an architecture lacks a type, or "". Software conversion of fp8 and bf16 would cost
// more than the product.
func TypeReason(a Arch, d kernels.DType) string {
	least := map[kernels.DType]int{kernels.BF16: 80, kernels.TF32: 80, kernels.FP8: 89}[d]
	if a.CC < least {
		return fmt.Sprintf("%s needs compute capability %d.%d, this GPU has %d.%d", d, least/10, least%10, a.CC/10, a.CC%10)
	}
	return ""
}

// LargestExtent bounds M, N and K, which kernels round up to tiles in 32 bits.
const LargestExtent = math.MaxInt32 - 1024

// SizeReason returns why a product can't be indexed with tiles of m × n, or "".
func SizeReason(p kernels.Task, m, n int) string {
	if max(p.M, p.N, p.K) > LargestExtent {
		return fmt.Sprintf("an extent is beyond %d", LargestExtent)
	}
	if tiles := int64(DivideUp(p.M, m)) * int64(DivideUp(p.N, n)); tiles > math.MaxInt32 {
		return fmt.Sprintf("%d tiles are more than a grid holds", tiles)
	}
	return ""
}

// CoreRate returns the multiply-adds per cycle of one multiprocessor's CUDA cores: for int8 with dp4a, four
// per instruction; for other types in fp32.
func CoreRate(a Arch, d kernels.DType) float64 {
	switch {
	case d == kernels.INT8:
		return 4 * 64
	case a.CC < 86: // 7.5 and 8.0
		return 64
	}
	return 128
}

// WaveSeconds returns the time of tiles blocks with perSM resident per multiprocessor. A lone block takes
// latencyCycles, one of perSM sharedCycles. Blocks of the last wave share with fewer.
func WaveSeconds(a Arch, tiles, perSM int, latencyCycles, sharedCycles float64) float64 {
	waves, rest := tiles/(perSM*a.SMs), tiles%(perSM*a.SMs)
	cycles := float64(waves) * sharedCycles
	if rest > 0 {
		neighbours := float64(DivideUp(rest, a.SMs)) / float64(perSM)
		cycles += max(latencyCycles, sharedCycles*neighbours)
	}
	return cycles / (a.ClockMHz * 1e6)
}

// Waves returns the number of waves of blocks, with perSM resident per multiprocessor.
func Waves(a Arch, blocks, perSM int) float64 { return float64(blocks) / float64(perSM*a.SMs) }

// MemorySeconds returns the minimum memory time of a product: each operand read once, and C written.
func MemorySeconds(a Arch, p kernels.Task) float64 {
	if a.Bandwidth <= 0 {
		return 0
	}
	return p.Shape().Bytes(p.DType) / (a.Bandwidth * common.For(a.CC, a.SMs, a.Bandwidth).Memory)
}

// LaunchSeconds returns the time of an empty launch in a graph.
func LaunchSeconds(a Arch) float64 { return common.For(a.CC, a.SMs, a.Bandwidth).Launch }

// TensorClocks returns the tensor-core clocks of an SM for 16×8 outputs, 32 bytes deep, with fp32 or int32
// accumulation. The value for 9.0 is measured (wgmma takes 1). The others are the vendor's, for cards with
// full-rate fp32 accumulation.
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

// Norm returns the p-norm of the times of overlapping resources: the closer two times are, the less they
// overlap.
func Norm(p float64, times ...float64) float64 {
	sum := 0.
	for _, t := range times {
		sum += math.Pow(t, p)
	}
	return math.Pow(sum, 1/p)
}

// L2PerClock returns the L2 bandwidth of a multiprocessor in bytes per cycle.
func L2PerClock(a Arch) float64 { return common.For(a.CC, a.SMs, a.Bandwidth).L2 }

type commonModel struct {
	// Launch is the time of an empty launch in a graph.
	Launch float64 `constant:"launch" unit:"s"`
	// Memory is the fraction of data-sheet bandwidth that good kernels reach.
	Memory float64 `constant:"memory" unit:"1"`
	// L2 is the bandwidth of one multiprocessor.
	L2 float64 `constant:"l2" unit:"B/cycle"`
}

var common = calibration.Of[commonModel]("common")
