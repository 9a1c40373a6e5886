// Package gemv plans memory-bound products of few rows of A.
package gemv

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Family is gemv.cu: up to eight rows of A; B is read once and not cached.
type Family struct{}

// Most is the maximum rows of A in one pass over B: the columns of mma.sync.
const Most = 8

// Name implements [planning.Family].
func (Family) Name() string { return "gemv" }

// Describe implements [planning.Family].
func (Family) Describe(planning.Arch) string {
	return "M up to 8 at the speed of memory: 16-byte loads straight into mma.sync's fragments, K split over a block's warps"
}

// Supports implements [planning.Family].
func (Family) Supports(a planning.Arch, p gemm.Problem) string {
	if p.M > Most {
		return fmt.Sprintf("takes up to %d rows of A, not %d", Most, p.M)
	}
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	if p.K > (math.MaxInt32-4096)/p.DType.Size() {
		return fmt.Sprintf("a row of K %d is beyond 2 GiB", p.K)
	}
	return planning.SizeReason(p.Task, Most, Rows)
}

// Rows is the number of B's rows per block, Step the bytes of each that a warp reads per step.
const Rows, Step = 16, 256

// gemvChoice is the number of steps in flight and the number of warps along K.
type gemvChoice struct{ ahead, warps int }

// choices omits a second step on CUDA cores, where the sums need its registers.
func (Family) choices(d kernels.DType) []gemvChoice {
	var all []gemvChoice
	for _, warps := range []int{4, 6, 8} {
		all = append(all, gemvChoice{1, warps})
		if d != kernels.FP32 {
			all = append(all, gemvChoice{2, warps})
		}
	}
	return all
}

// resident returns the blocks per multiprocessor. Registers limit them: 80 per thread, or 120 with two steps
// in flight or on CUDA cores.
func (c gemvChoice) resident(a planning.Arch, d kernels.DType) int {
	registers, threads := 80, 2048
	if d == kernels.FP32 || c.ahead == 2 {
		registers = 120
	}
	switch a.CC {
	case 75:
		threads = 1024
	case 86, 87, 89, 120:
		threads = 1536
	}
	block := 32 * c.warps
	return max(1, min(65536/(registers*block), threads/block, 16))
}

type model struct {
	// Clock is the fraction of the highest clock under load.
	Clock float64 `constant:"clock" unit:"1"`
	// Start is the fixed cost of a launch.
	Start float64 `constant:"start" unit:"cycles"`
	// Latency is the time between two steps of a warp: a load and the products of one row of A. Row is the
	// cost of each further row. Convert is the cost of fp8, which these kernels' mma.sync takes as fp16.
	// Latency dominates with few bytes in flight, otherwise memory; Overlap is the p of their p-norm.
	Latency float64 `constant:"latency" unit:"cycles"`
	Row     float64 `constant:"row" unit:"cycles"`
	Convert float64 `constant:"convert" unit:"cycles"`
	Overlap float64 `constant:"overlap" unit:"1"`
	// Ahead is the gain from a second step in flight.
	Ahead float64 `constant:"ahead" unit:"1"`
	// Partial is the fraction of a step's time that passes if K ends inside it, or before it for some of a
	// block's warps.
	Partial float64 `constant:"partial" unit:"1"`
	// Wave is the startup cost of each further round of blocks.
	Wave float64 `constant:"wave" unit:"cycles"`
	// Issue is the fraction of cycles when CUDA cores multiply.
	Issue float64 `constant:"issue" unit:"1"`
}

var models = calibration.Of[model]("gemv")

// seconds returns the modeled time of a launch. Blocks run in rounds; a small last round has few bytes in
// flight.
func (c gemvChoice) seconds(a planning.Arch, p kernels.Task) float64 {
	m := models.For(a.CC, a.SMs, a.Bandwidth)
	blocks, slots := planning.DivideUp(p.N, Rows), c.resident(a, p.DType)*a.SMs
	clock := a.LoadClock(m.Clock)
	latency := m.Latency + float64(p.M-1)*m.Row
	if p.DType == kernels.FP8 {
		latency += m.Convert
	}
	latency /= clock
	inFlight := float64(c.warps * Rows * Step) // of a block
	if c.ahead == 2 {
		inFlight *= m.Ahead
	}
	rowBytes, stepBytes := p.K*p.DType.Size(), c.warps*Step
	covered := float64(planning.DivideUp(rowBytes, stepBytes)*stepBytes) / float64(rowBytes)
	bytes := p.Shape().Bytes(p.DType) / float64(blocks) * (1 + m.Partial*(covered-1))
	round := func(blocks int) float64 {
		if blocks == 0 {
			return 0
		}
		slowness := math.Pow(latency/(float64(blocks)*inFlight), m.Overlap)
		if a.Bandwidth > 0 {
			slowness += math.Pow(1/a.Bandwidth, m.Overlap)
		}
		return float64(blocks) * bytes * math.Pow(slowness, 1/m.Overlap)
	}
	t := round(blocks % slots)
	if full := blocks / slots; full > 0 {
		t += float64(full) * round(slots)
	}
	if p.DType == kernels.FP32 {
		t = max(t, p.Shape().FLOPs()/2/(planning.CoreRate(a, p.DType)*float64(a.SMs)*a.ClockMHz*1e6*m.Issue))
	}
	return t + (m.Start+float64(planning.DivideUp(blocks, slots)-1)*m.Wave)/clock
}

// tiling returns the division of a product: a block's warps split K for the same rows of B and sum at the
// end.
func (c gemvChoice) tiling(a planning.Arch, p kernels.Task) kernels.Tiling {
	return kernels.Tiling{
		Tile:  [3]int{tokens(p), Rows, c.warps * Step / p.DType.Size()},
		Waves: planning.Waves(a, planning.DivideUp(p.N, Rows), c.resident(a, p.DType)), Split: 1,
	}
}

// tokens is the kernel's variant: the maximum rows of A.
func tokens(p kernels.Task) int {
	if p.DType != kernels.FP32 {
		return Most
	}
	n := 2
	for n < p.M {
		n *= 2
	}
	return n
}

// Candidates implements [planning.Chooser].
func (g Family) Candidates(a planning.Arch, p gemm.Problem) []gemm.Plan {
	var plans []gemm.Plan
	for _, c := range g.choices(p.DType) {
		plans = append(plans, gemm.Plan{
			Label:   fmt.Sprintf("%d warps %d ahead", c.warps, c.ahead),
			Tiling:  c.tiling(a, p.Task),
			Stages:  c.ahead,
			Slots:   c.resident(a, p.DType) * a.SMs,
			Seconds: c.seconds(a, p.Task),
			Bind:    func(at gemm.Addresses) []planning.Call { return []planning.Call{c.call(a, p, at)} },
		})
	}
	return plans
}

// Plan implements [planning.Family].
func (g Family) Plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	return planning.Fastest(g.Candidates(a, p))
}

func (c gemvChoice) call(a planning.Arch, p gemm.Problem, at gemm.Addresses) planning.Call {
	const padding = 4 // padding between rows of sums
	k := planning.Call{
		Kernel: fmt.Sprintf("ga_gemv_%s_%dx%d", p.DType, c.ahead, tokens(p.Task)),
		Grid:   planning.Dim3{X: planning.DivideUp(p.N, Rows)}, Block: planning.Dim3{X: 32 * c.warps},
		Shared: c.warps * Most * (Rows + padding) * 4, Overlap: a.Overlaps(),
	}
	k.Args.Pointer(at.A).Pointer(at.B).Pointer(at.C)
	k.Args.Int64(int64(p.LDA)).Int64(int64(at.LDB)).Int64(int64(p.LDC))
	k.Args.Int32(p.M, p.N, p.K, planning.OneIf(p.Aligned.A >= 16))
	return k
}
