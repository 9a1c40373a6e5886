package cuda

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// gemv is gemv.cu: up to eight rows of A, B read once and kept nowhere.
type gemv struct{}

// gemvMost is how many rows of A one pass over B serves: the columns of mma.sync.
const gemvMost = 8

func (gemv) Name() string { return "gemv" }

func (gemv) Describe(arch) string {
	return "M up to 8 at the speed of memory: 16-byte loads straight into mma.sync's fragments, K split over a block's warps"
}

func (gemv) Supports(a arch, p gemmProblem) string {
	if p.M > gemvMost {
		return fmt.Sprintf("takes up to %d rows of A, not %d", gemvMost, p.M)
	}
	if reason := typeReason(a, p.DType); reason != "" {
		return reason
	}
	if p.K > (math.MaxInt32-4096)/p.DType.Size() {
		return fmt.Sprintf("a row of K %d is beyond 2 GiB", p.K)
	}
	return sizeReason(p.Problem, gemvMost, gemvRows)
}

// gemvRows is how many rows of B a block has, and gemvStep how many bytes of each a warp
// takes in a step.
const gemvRows, gemvStep = 16, 256

// gemvChoice is how many steps' weights are in flight, and how many warps lie beside each
// other along K.
type gemvChoice struct{ ahead, warps int }

// choices: on CUDA cores, sums take the registers that a second step would need.
func (gemv) choices(d kernels.DType) []gemvChoice {
	var all []gemvChoice
	for _, warps := range []int{4, 6, 8} {
		all = append(all, gemvChoice{1, warps})
		if d != kernels.FP32 {
			all = append(all, gemvChoice{2, warps})
		}
	}
	return all
}

// resident is how many blocks share a multiprocessor: registers decide, 80 a thread, or
// 120 with two steps in flight and where CUDA cores multiply.
func (c gemvChoice) resident(a arch, d kernels.DType) int {
	registers, threads := 80, 2048
	if d == kernels.FP32 || c.ahead == 2 {
		registers = 120
	}
	switch a.cc {
	case 75:
		threads = 1024
	case 86, 87, 89, 120:
		threads = 1536
	}
	block := 32 * c.warps
	return max(1, min(65536/(registers*block), threads/block, 16))
}

// The model's constants, fitted to times of an H200, m 1 and 8, which they meet within 4 %
// (root mean square).
const (
	// gemvStart is what a launch takes beside its work.
	gemvStart = 2.3e-6
	// gemvLatency is how long a load takes. With few bytes in flight that decides, else
	// memory; gemvOverlap is the p of the p-norm of both.
	gemvLatency, gemvOverlap = 0.79e-6, 1.8
	// gemvAhead is what a second step in flight is worth: much of the time a warp waits
	// for its first.
	gemvAhead = 1.08
	// gemvWave is what each further round of blocks costs, gemvRow what a row of A does.
	gemvWave, gemvRow = 1.2e-6, 0.06e-6
	// gemvIssue is the part of the cycles in which CUDA cores multiply.
	gemvIssue = 0.5
)

// seconds is what the model expects of one launch.
func (c gemvChoice) seconds(a arch, p kernels.Problem) float64 {
	blocks, slots := divideUp(p.N, gemvRows), c.resident(a, p.DType)*a.sms
	inFlight := float64(min(blocks, slots)*c.warps) * gemvRows * gemvStep
	if c.ahead == 2 {
		inFlight *= gemvAhead
	}
	slowness := math.Pow(gemvLatency/inFlight, gemvOverlap)
	if a.bandwidth > 0 {
		slowness += math.Pow(1/a.bandwidth, gemvOverlap)
	}
	t := p.Shape.Bytes(p.DType) * math.Pow(slowness, 1/gemvOverlap)
	if p.DType == kernels.FP32 {
		t = max(t, p.Shape.FLOPs()/2/(coreRate(a, p.DType)*float64(a.sms)*a.clockMHz*1e6*gemvIssue))
	}
	return gemvStart + t + float64(divideUp(blocks, slots)-1)*gemvWave + float64(p.M-1)*gemvRow
}

// candidates are the plans of all choices.
func (g gemv) Candidates(a arch, p gemmProblem) []gemmPlan {
	var plans []gemmPlan
	for _, c := range g.choices(p.DType) {
		plans = append(plans, gemmPlan{
			label:   fmt.Sprintf("%d warps %d ahead", c.warps, c.ahead),
			seconds: c.seconds(a, p.Problem),
			bind:    func(at addresses) []call { return []call{c.call(a, p, at)} },
		})
	}
	return plans
}

func (g gemv) Plan(a arch, p gemmProblem) gemmPlan {
	return fastest(g.Candidates(a, p))
}

// call launches gemv.cu: struct Params there.
func (c gemvChoice) call(a arch, p gemmProblem, at addresses) call {
	tokens := gemvMost
	if p.DType == kernels.FP32 {
		for tokens = 2; tokens < p.M; tokens *= 2 {
		}
	}
	const padding = 4 // sums beside a block's rows
	k := call{
		kernel: fmt.Sprintf("ga_gemv_%s_%dx%d", p.DType, c.ahead, tokens),
		grid:   dim3{x: divideUp(p.N, gemvRows)}, block: dim3{x: 32 * c.warps},
		shared: c.warps * gemvMost * (gemvRows + padding) * 4, overlap: a.cc >= 90,
	}
	k.args.pointer(at.a).pointer(at.b).pointer(at.c)
	k.args.int64(int64(p.LDA)).int64(int64(at.ldb)).int64(int64(p.LDC))
	k.args.int32(p.M, p.N, p.K, oneIf(p.aligned.a >= 16))
	return k
}
