package cuda

import "github.com/gemmaudit/gemmaudit/kernels"

// naive is naive.cu: one thread an output.
type naive struct{}

const naiveTile = 16 // outputs of a block each way, one a thread

// naiveCycles is how many cycles the L1 takes for one step of K of one warp: a load of
// B touches 16 rows, in as many cache lines, and one of A two.
const naiveCycles = 18

func (naive) Name() string { return "naive" }

func (naive) Describe(arch) string { return "one thread an output, on CUDA cores, nothing shared" }

func (naive) Supports(a arch, p gemmProblem) string {
	if p.DType == kernels.TF32 {
		return "tf32 is a format of tensor cores, which naive does not use"
	}
	if reason := typeReason(a, p.DType); reason != "" {
		return reason
	}
	return sizeReason(p.Problem, naiveTile, naiveTile)
}

func (naive) Plan(a arch, p gemmProblem) gemmPlan {
	tilesM, tilesN := divideUp(p.M, naiveTile), divideUp(p.N, naiveTile)
	warps := naiveTile * naiveTile / 32
	// Eight blocks are resident, but the L1 serves one warp at a time.
	const perSM = 8
	block := float64(p.K) * naiveCycles * float64(warps)
	// Alone, a warp waits out each group of four steps: a cache hit is some 35 cycles away.
	alone := float64(p.K) / 4 * 40
	return gemmPlan{
		label:   "16x16",
		seconds: launchSeconds + max(memorySeconds(a, p.Problem), waveSeconds(a, tilesM*tilesN, perSM, max(block, alone), perSM*block)),
		bind: func(at addresses) []call {
			c := call{kernel: "ga_naive_" + string(p.DType), grid: dim3{x: tilesM * tilesN}, block: dim3{x: naiveTile * naiveTile}}
			c.args.pointer(at.a).pointer(at.b).pointer(at.c).int64(int64(p.LDA)).int64(int64(at.ldb)).int64(int64(p.LDC))
			c.args.int32(p.M, p.N, p.K, tilesN)
			return []call{c}
		},
	}
}
