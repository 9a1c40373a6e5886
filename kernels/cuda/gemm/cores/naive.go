// Package cores plans products on CUDA cores.
package cores

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Naive is naive.cu: one thread an output.
type Naive struct{}

const naiveTile = 16 // outputs of a block each way, one a thread

// naiveCycles is how many cycles the L1 takes for one step of K of one warp: a load of
// B touches 16 rows, in as many cache lines, and one of A two.
const naiveCycles = 18

// Name is the name by which the kernel is selected.
func (Naive) Name() string { return "naive" }

// Describe is one line for people.
func (Naive) Describe(planning.Arch) string {
	return "one thread an output, on CUDA cores, nothing shared"
}

// Supports returns why p can't run on a, empty when it can.
func (Naive) Supports(a planning.Arch, p gemm.Problem) string {
	if p.DType == kernels.TF32 {
		return "tf32 is a format of tensor cores, which naive does not use"
	}
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	return planning.SizeReason(p.Problem, naiveTile, naiveTile)
}

// Plan decides how p, which is supported, runs on a.
func (Naive) Plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	tilesM, tilesN := planning.DivideUp(p.M, naiveTile), planning.DivideUp(p.N, naiveTile)
	warps := naiveTile * naiveTile / 32
	// Eight blocks are resident, but the L1 serves one warp at a time.
	const perSM = 8
	block := float64(p.K) * naiveCycles * float64(warps)
	// Alone, a warp waits out each group of four steps: a cache hit is some 35 cycles away.
	latency := float64(p.K) / 4 * 40
	return gemm.Plan{
		Label:   "16x16",
		Tiling:  kernels.Tiling{Tile: [3]int{naiveTile, naiveTile, 1}, Waves: planning.Waves(a, tilesM*tilesN, perSM), Split: 1},
		Slots:   perSM * a.SMs,
		Seconds: planning.LaunchSeconds(a) + max(planning.MemorySeconds(a, p.Problem), planning.WaveSeconds(a, tilesM*tilesN, perSM, max(block, latency), perSM*block)),
		Bind: func(at gemm.Addresses) []planning.Call {
			c := planning.Call{Kernel: "ga_naive_" + string(p.DType), Grid: planning.Dim3{X: tilesM * tilesN}, Block: planning.Dim3{X: naiveTile * naiveTile}}
			c.Args.Pointer(at.A).Pointer(at.B).Pointer(at.C).Int64(int64(p.LDA)).Int64(int64(at.LDB)).Int64(int64(p.LDC))
			c.Args.Int32(p.M, p.N, p.K, tilesN)
			return []planning.Call{c}
		},
	}
}
