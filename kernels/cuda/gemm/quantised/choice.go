package quantised

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// tile is a built tile: 128 rows of weights by tokens rows of A.
type tile struct{ tokens int }

// Constants of quantised.cuh and quantised_mma.cuh.
const (
	warpScratch = 8 * 80 // bytes of shared memory per consumer warp
	consumers   = 8      // warps
	mostStages  = 32
	mmaThreads  = 256
	bandTokens  = 1024 // rows of A that are walked together
)

func (c choice) threads() int {
	switch {
	case c.mma:
		return mmaThreads
	case c.tokens > 128:
		return 384
	}
	return 288
}

func (t tile) mmaStages() int {
	switch {
	case t.tokens <= 32:
		return 4
	case t.tokens <= 64:
		return 3
	}
	return 2
}

type choice struct {
	tile
	mma        bool // by mma.sync, not by wgmma
	record     int  // bytes of weights in a step
	perSM      int  // blocks
	beside     bool // leaves as much room as it takes, for the next launch
	stages     int
	steps      int // of K, per tile
	tokenTiles int // along M
	rowTiles   int // along N
	blocks     int // in the grid
	streamed   int // tiles that are split along K
}

func (c choice) tiles() int { return c.tokenTiles * c.rowTiles }

// stageBytes is a ring stage of tokens and a record, rounded up to 1024 for wgmma.
func (c choice) stageBytes() int {
	bytes := 2*c.tokens*128 + c.record
	if c.mma {
		return bytes
	}
	return planning.DivideUp(bytes, 1024) * 1024
}

// shared returns the bytes of the ring; with wgmma also each consumer warp's scratch, and two barriers per
// stage.
func (c choice) shared(stages int) int {
	if c.mma {
		return stages * c.stageBytes()
	}
	return stages*(c.stageBytes()+16) + consumers*warpScratch
}

func choices(a planning.Arch, p Problem) []choice {
	var all []choice
	built := tiles
	if !byWgmma(a) {
		built = mmaTiles
	}
	for i, t := range built {
		// Absent rows cost as much as others.
		if i > 0 && built[i-1].tokens >= p.M {
			break
		}
		for _, c := range t.dense(a) {
			c.record, c.tokenTiles = support.RecordBytes(p.Weights, p.K), planning.DivideUp(p.M, t.tokens)
			c.steps, c.rowTiles = support.Records(p.N, p.K)
			fit := a.SMs * c.perSM
			share := c.perSM
			if c.beside {
				share = 2
			}
			sharedMax := sharedOf(a, share)
			for _, cut := range c.cuts(fit) {
				c.streamed, c.blocks = cut[0], cut[1]
				// If a multiprocessor has no block, two of the next launch would share it.
				if c.beside && c.blocks != a.SMs {
					continue
				}
				fitting := (sharedMax - c.shared(0)) / (c.shared(1) - c.shared(0))
				c.stages = min(mostStages, int(c.busiest()), fitting)
				least := min(2, c.steps)
				if c.mma {
					c.stages, least = t.mmaStages(), t.mmaStages()
				}
				if fitting >= least {
					all = append(all, c)
				}
			}
		}
	}
	// Each tile along M converts the weights again, so many small tiles are never best.
	largest := 0
	for _, c := range all {
		largest = max(largest, c.tokens)
	}
	return slices.DeleteFunc(all, func(c choice) bool { return p.M > 8*c.tokens && c.tokens < largest })
}

// dense returns a tile's choices of blocks per multiprocessor, from this launch or also the next one.
// Registers allow two for few tokens.
func (t tile) dense(a planning.Arch) []choice {
	one := choice{tile: t, mma: !byWgmma(a), perSM: 1}
	all := []choice{one}
	if t.tokens <= 32 {
		two := one
		two.perSM = 2
		all = append(all, two)
	}
	if !one.mma && t.tokens <= 64 {
		one.beside = true
		all = append(all, one)
	}
	return all
}

// sharedOf returns the shared memory per block for the given blocks per multiprocessor, less the system's
// reserve for each.
func sharedOf(a planning.Arch, blocks int) int { return (a.SharedMax+1024)/blocks - 1024 }

// cuts returns pairs of split tiles and grid blocks, with fit concurrent blocks: no splits, equal splits of
// all tiles, or splits that balance all blocks.
func (c choice) cuts(fit int) [][2]int {
	cuts := [][2]int{{0, min(c.tiles(), fit)}}
	add := func(streamed, blocks int) {
		if work := int64(streamed) * int64(c.steps); work >= 2*int64(blocks) && work*int64(blocks) < math.MaxInt32 {
			cuts = append(cuts, [2]int{streamed, blocks})
		}
	}
	for parts := 2; parts <= min(fit/c.tiles(), 16); parts++ {
		add(c.tiles(), c.tiles()*parts)
	}
	rest := c.tiles() % fit
	switch {
	case rest == 0:
	case c.tiles() < fit:
		if fit%c.tiles() != 0 && fit/c.tiles() <= 16 {
			add(c.tiles(), fit)
		}
	default:
		add(rest, fit)
		add(rest+fit, fit)
	}
	return cuts
}

func (c choice) busiest() int64 {
	streamed := (int64(c.streamed)*int64(c.steps) + int64(c.blocks) - 1) / int64(c.blocks)
	return streamed + int64(planning.DivideUp(c.tiles()-c.streamed, c.blocks))*int64(c.steps)
}

// The time model, fitted to an H200 over all choices: tiles of 8 to 256 tokens, whole and split, of 1 to 4096
// rows of A.
const (
	// startSeconds is the cost of a launch, with its first loads and last stores; besideSeconds the cost of a
	// launch that overlaps the previous one.
	startSeconds, besideSeconds = 4.2e-6, 1.7e-6

	handOverSeconds = 1.5e-6
	partRate        = 186e9 // one multiprocessor's read bandwidth for a tile's parts
	memoryShare     = 0.85  // fraction of data-sheet bandwidth
	// clockShare is the fraction of the highest clock under the power limit if all tensor cores are busy, and
	// mostClockShare if few are.
	clockShare, mostClockShare = 0.8, 0.95
	// convertCycles is the cost to convert a step of 4-bit weights with one block per multiprocessor, whose
	// warps wait for each other; convertCyclesOfTwo is the cost with two.
	convertCycles, convertCyclesOfTwo = 835, 610
	stepOverlap                       = 2.2 // p of the p-norm of a step's conversion and products
	overlap                           = 3   // p of the norm of concurrent resources
	// cutSteps is the relative extra time of split tiles' steps with 256 tokens, because blocks at different
	// places along K share less in L2.
	cutSteps = 0.02
)

func (c choice) seconds(a planning.Arch, p Problem) float64 {
	clock := a.ClockMHz * 1e6
	together, convert := 1., float64(convertCycles) // blocks per multiprocessor, conversion cycles
	if c.blocks > a.SMs {
		together, convert = float64(c.perSM), convertCyclesOfTwo
	}
	if p.Weights.Bits == 8 {
		convert *= 1.4
	}
	cut := float64(c.streamed) * float64(c.steps) / float64(c.blocks)
	steps := (float64(c.busiest()) + cutSteps*cut*float64(c.tokens)/256) * together
	// 64 × 8 outputs, 16 deep, take four cycles: sixteen times for a step.
	multiply := 8 * float64(c.tokens) / min(mostClockShare, clockShare*float64(a.SMs)/float64(min(a.SMs, c.blocks)))
	if c.mma {
		multiply *= planning.TensorClocks(a, p.DType)
	}
	times := []float64{steps * planning.Norm(stepOverlap, multiply, convert) / clock}
	fetched := float64(c.tiles()) * float64(c.steps) * float64(2*c.tokens*128+c.record)
	times = append(times, fetched/(planning.L2PerClock(a)*clock*float64(a.SMs)))
	if a.Bandwidth > 0 {
		weights := float64(c.rowTiles) * float64(c.steps) * float64(c.record)
		rest := float64(p.M) * float64(p.K+p.N) * float64(p.DType.Size())
		times = append(times, (weights+rest)/(a.Bandwidth*memoryShare))
	}
	t := startSeconds
	if c.beside {
		t = besideSeconds
	}
	t += planning.Norm(overlap, times...)
	if c.streamed > 0 {
		parts := planning.DivideUp(c.blocks, c.streamed)
		t += handOverSeconds + float64(parts*c.tokens*support.RecordRows*4)/partRate
	}
	return t
}

// label is "16x128 stages 11 two a multiprocessor split 64 of 112 among 132": rows and columns of C, ring,
// and how many of the tiles are split along K.
func (c choice) label() string {
	s := fmt.Sprintf("%dx%d stages %d", c.tokens, support.RecordRows, c.stages)
	if c.perSM > 1 {
		s += fmt.Sprintf(" %d blocks", c.perSM)
	}
	if c.beside {
		s += " beside"
	}
	if c.streamed > 0 {
		s += fmt.Sprintf(" split %d of %d among %d", c.streamed, c.tiles(), c.blocks)
	}
	return s
}

// tiling is the label in numbers. Rows of weights are wgmma's, so C is computed transposed.
func (c choice) tiling(a planning.Arch) kernels.Tiling {
	t := kernels.Tiling{
		Tile:  [3]int{c.tokens, support.RecordRows, support.RecordK},
		Waves: float64(c.tiles()) / float64(a.SMs*c.perSM), Split: 1,
		Orientation: kernels.OrientationTransposed,
	}
	switch {
	case c.streamed == c.tiles() && c.blocks%c.tiles() == 0:
		t.Split = c.blocks / c.tiles()
	case c.streamed > 0:
		t.Split = 2 // a tile has as many parts as blocks that share it
	}
	return t
}

func (c choice) plan(a planning.Arch, p Problem) gemm.Plan {
	plan := gemm.Plan{Label: c.label(), Tiling: c.tiling(a), Stages: c.stages, Slots: a.SMs * c.perSM, Seconds: c.seconds(a, p)}
	if c.streamed > 0 {
		plan.Scratch = int64(c.blocks) * int64(support.RecordRows*c.tokens) * 4
		plan.Flags = int64(c.blocks) * 2 * 4
	}
	// TMA and cp.async need rows aligned to 16 bytes.
	return realigned(plan, a, p, c.call)
}

// symbol returns the kernel of a tile: "ga_w4a16_bf16_g128z_64", or "ga_w4a16_mma_bf16_g128z_64" by mma.sync.
func symbol(p Problem, by string, t tile) string {
	zeros := ""
	if p.Weights.ZeroPoint != "" {
		zeros = "z"
	}
	return fmt.Sprintf("ga_w%da16_%s%s_g%d%s_%d", p.Weights.Bits, by, p.DType, support.RecordGroup(p.Weights.GroupK, p.K), zeros, t.tokens)
}

// call launches quantised.cuh or quantised_mma.cuh with their struct Params or MmaParams.
func (c choice) call(p Problem, at gemm.Addresses, lda int) planning.Call {
	by := ""
	if c.mma {
		by = "mma_"
	}
	k := planning.Call{
		Kernel: symbol(p, by, c.tile), Shared: c.shared(c.stages), Overlap: !c.mma,
		Grid: planning.Dim3{X: c.blocks}, Block: planning.Dim3{X: c.threads()},
	}
	if c.mma {
		k.Args.Pointer(at.A)
	} else {
		k.Args.TensorMap(planning.TensorMap{
			DType: p.DType, Address: at.A, Rows: p.M, Cols: p.K, LD: lda, BoxRows: c.tokens, BoxCols: 64, Swizzle: 128,
		})
	}
	k.Args.Pointer(at.B).Pointer(at.C).Pointer(at.Scratch).Pointer(at.Flags)
	if c.mma {
		k.Args.Int64(int64(lda * p.DType.Size()))
	}
	k.Args.Int64(int64(p.LDC)).Int32(p.M, p.N)
	if c.mma {
		k.Args.Int32(p.K)
	}
	run := c.streamed * c.steps
	band := min(c.tokenTiles, max(1, bandTokens/c.tokens))
	k.Args.Int32(c.steps, c.tokenTiles, c.rowTiles, band, c.streamed, run/c.blocks, run%c.blocks)
	if c.mma {
		k.Args.Int32(planning.OneIf(p.Aligned.C >= 4)).Align(8)
		return k
	}
	k.Args.Int32(c.stages, planning.OneIf(p.Aligned.C >= 16)).Align(64)
	return k
}
