// Package cores plans products on CUDA cores.
package cores

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Naive is naive.cu: one thread an output.
type Naive struct{}

const naiveTile = 16 // outputs of a block along each side, one per thread

// naiveCycles is the L1 cycles for one step of K of a warp: a load of B touches 16 rows, each in its own
// cache line, and one of A two.
const naiveCycles = 18

// Name implements [planning.Family].
func (Naive) Name() string { return "naive" }

// Describe implements [planning.Family].
func (Naive) Describe(planning.Arch) string {
	return "one thread an output, on CUDA cores, nothing shared"
}

// Supports implements [planning.Family].
func (Naive) Supports(a planning.Arch, p gemm.Problem) string {
	if p.DType == kernels.TF32 {
		return "tf32 is a format of tensor cores, which naive does not use"
	}
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	return planning.SizeReason(p.Task, naiveTile, naiveTile)
}

// Plan implements [planning.Family].
func (Naive) Plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	tilesM, tilesN := planning.DivideUp(p.M, naiveTile), planning.DivideUp(p.N, naiveTile)
	warps := naiveTile * naiveTile / 32
	// Eight blocks are resident, but L1 serves one warp at a time.
	const perSM = 8
	block := float64(p.K) * naiveCycles * float64(warps)
	// A lone warp waits for each group of four steps; a cache hit takes about 35 cycles.
	latency := float64(p.K) / 4 * 40
	return gemm.Plan{
		Label:  "16x16",
		Tiling: kernels.Tiling{Tile: [3]int{naiveTile, naiveTile, 1}, Waves: planning.Waves(a, tilesM*tilesN, perSM), Split: 1},
		Slots:  perSM * a.SMs,
		Seconds: planning.LaunchSeconds(a) + max(planning.MemorySeconds(a, p.Task),
			planning.WaveSeconds(a, tilesM*tilesN, perSM, max(block, latency), perSM*block)),
		Bind: func(at gemm.Addresses) []planning.Call {
			c := planning.Call{Kernel: "ga_naive_" + string(p.DType), Grid: planning.Dim3{X: tilesM * tilesN},
				Block: planning.Dim3{X: naiveTile * naiveTile}}
			c.Args.Pointer(at.A).Pointer(at.B).Pointer(at.C).Int64(int64(p.LDA)).Int64(int64(at.LDB)).Int64(int64(p.LDC))
			c.Args.Int32(p.M, p.N, p.K, tilesN)
			return []planning.Call{c}
		},
	}
}
