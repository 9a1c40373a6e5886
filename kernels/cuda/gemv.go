package cuda

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() { families[rungGemv] = gemv{} }

// gemv is gemv.cu: up to eight rows of A, B read once and kept nowhere.
type gemv struct{}

// gemvMost is how many rows of A one pass over B serves: the columns of mma.sync.
const gemvMost = 8

func (gemv) name() string { return "gemv" }

func (gemv) describe(arch) string {
	return "M up to 8 at the speed of memory: 16-byte loads straight into mma.sync's fragments, K split over a block's warps"
}

func (gemv) supports(a arch, p kernels.Problem) string {
	if p.M > gemvMost {
		return fmt.Sprintf("takes up to %d rows of A, not %d", gemvMost, p.M)
	}
	if reason := typeReason(a, p.DType); reason != "" {
		return reason
	}
	if p.K > (math.MaxInt32-4096)/p.DType.Size() {
		return fmt.Sprintf("a row of K %d is beyond 2 GiB", p.K)
	}
	return sizeReason(p, gemvMost, 16)
}

// gemvChoice is how many rows of B a block has, and how many warps beside each other
// along K.
type gemvChoice struct{ rows, warps int }

// choices: tensor cores take 16 rows at a time or twice that, which halves what is read
// of A; CUDA cores 16.
func (gemv) choices(d kernels.DType) []gemvChoice {
	var all []gemvChoice
	for _, rows := range []int{16, 32} {
		for _, warps := range []int{4, 6, 8} {
			if rows == 16 || d != kernels.FP32 {
				all = append(all, gemvChoice{rows, warps})
			}
		}
	}
	return all
}

// span is how many bytes of each row a warp takes in a step: eight loads of 16 bytes a
// lane, spread over the block's rows.
func (c gemvChoice) span() int { return 8 * 64 * 8 / c.rows }

// resident is how many blocks share a multiprocessor: registers decide, 80 a thread, or
// 128 where CUDA cores multiply.
func (c gemvChoice) resident(a arch, d kernels.DType) int {
	registers, threads := 80, 2048
	if d == kernels.FP32 {
		registers = 128
	}
	switch a.cc {
	case 75:
		threads = 1024
	case 86, 89:
		threads = 1536
	}
	block := 32 * c.warps
	return max(1, min(65536/(registers*block), threads/block, 16))
}

// The model's constants, fitted to times of an H200, m 1 and 8, which they meet within 6 %
// (root mean square).
const (
	// gemvStart is what a launch takes beside its work.
	gemvStart = 1.76e-6
	// gemvMemory is the part of the memory's bandwidth that is reached, gemvLatency how
	// long a load takes: with few bytes in flight, that decides. gemvOverlap is the p of
	// the p-norm of both.
	gemvMemory, gemvLatency, gemvOverlap = 0.98, 0.685e-6, 3.1
	// gemvWave is what each further round of blocks costs, gemvStep what a step of a warp
	// does, gemvRow a row of A.
	gemvWave, gemvStep, gemvRow = 1e-6, 0.25e-6, 0.05e-6
	// gemvIssue is the part of the cycles in which CUDA cores multiply.
	gemvIssue = 0.5
)

// seconds is what the model expects of one launch.
func (c gemvChoice) seconds(a arch, p kernels.Problem) float64 {
	blocks, resident := divideUp(p.N, c.rows), c.resident(a, p.DType)
	inFlight := float64(min(blocks, resident*a.sms)*c.warps) * 32 * 8 * 16
	slowness := math.Pow(gemvLatency/inFlight, gemvOverlap)
	if a.bandwidth > 0 {
		slowness += math.Pow(1/(a.bandwidth*gemvMemory), gemvOverlap)
	}
	t := p.Shape.Bytes(p.DType) * math.Pow(slowness, 1/gemvOverlap)
	if p.DType == kernels.FP32 {
		t = max(t, p.Shape.FLOPs()/2/(coreRate(a, p.DType)*float64(a.sms)*a.clockMHz*1e6*gemvIssue))
	}
	waves := divideUp(blocks, resident*a.sms) - 1
	steps := divideUp(p.K*p.DType.Size(), c.span()*c.warps)
	return gemvStart + t + float64(waves)*gemvWave + float64(steps)*gemvStep + float64(p.M-1)*gemvRow
}

// candidates are the plans of all choices.
func (g gemv) candidates(a arch, p kernels.Problem, o alignment) []planned {
	var plans []planned
	for _, c := range g.choices(p.DType) {
		plans = append(plans, planned{
			label:   fmt.Sprintf("%d rows %d warps", c.rows, c.warps),
			seconds: c.seconds(a, p),
			bind:    func(at addresses) []call { return []call{c.call(a, p, at, o)} },
		})
	}
	return plans
}

func (g gemv) plan(a arch, p kernels.Problem, o alignment) planned {
	return fastest(g.candidates(a, p, o))
}

// call launches gemv.cu: struct Params there.
func (c gemvChoice) call(a arch, p kernels.Problem, at addresses, o alignment) call {
	name := fmt.Sprintf("ga_gemv_%s_%d", p.DType, c.rows)
	if p.DType == kernels.FP32 {
		tokens := 2
		for tokens < p.M {
			tokens *= 2
		}
		name += fmt.Sprintf("x%d", tokens)
	}
	const pitch = 4 // sums beside a block's rows
	k := call{
		kernel: name, grid: dim3{x: divideUp(p.N, c.rows)}, block: dim3{x: 32 * c.warps},
		shared: c.warps * gemvMost * (c.rows + pitch) * 4, overlap: a.cc >= 90,
	}
	k.args.pointer(at.a).pointer(at.b).pointer(at.c)
	k.args.int64(int64(p.LDA)).int64(int64(at.ldb)).int64(int64(p.LDC))
	k.args.int32(p.M, p.N, p.K, oneIf(o.a >= 16))
	return k
}
