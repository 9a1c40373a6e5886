package quantised

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Constants of quantised_narrow.cuh.
const (
	narrowThreads = 1024
	narrowWarps   = narrowThreads / 32
	narrowSteps   = 4   // of K per warp
	narrowRows    = 16  // of weights in a group
	narrowSums    = 512 // bytes of a warp's sums of a group for 8 tokens
	evictFirst    = 0x12F0000000000000
)

// narrow is the division of work of quantised_narrow.cuh: blocks have equal parts of K and nearly equal
// numbers of row groups.
type narrow struct {
	tile
	bits      int
	m         int // rows of A
	steps     int // of K
	parts     int // of K: the blocks of a cluster
	windows   int // of narrowSteps each, per part
	groups    int // of rows
	rowBlocks int // that share them
	early     int // groups per warp prefetched before the predecessor ends: 0 or 1
}

// sets returns the sets of warps that share a block's groups; a set has a warp per window.
func (n narrow) sets() int { return narrowWarps / n.windows }

func (n narrow) most() int { return planning.DivideUp(n.groups, n.rowBlocks) }

// sums returns the bytes of a block's sums for one window.
func (n narrow) sums() int { return n.most() * n.tokens / 8 * narrowSums }

// scratch returns the offset of the sums. They follow a barrier and the windows' tokens, whose space the sums
// of all parts reuse.
func (n narrow) scratch() int {
	tokens := n.windows * narrowSteps * support.RecordK * 2 * n.m
	gathered := planning.DivideUp(n.sums()/narrowSums, n.parts) * n.parts * narrowSums
	return max(tokens, gathered) + 16
}

func (n narrow) shared() int { return n.scratch() + n.windows*n.sums() }

// clusters returns a safe number of concurrent clusters if each block fills a multiprocessor. Clusters don't
// cross GPCs, and some GPCs are smaller.
func clusters(a planning.Arch, size int) int {
	if size <= 2 {
		return max(1, a.SMs/size)
	}
	return max(1, (a.SMs/8-1)*8/size)
}

func narrows(a planning.Arch, p Problem) []narrow {
	n := narrow{bits: p.Weights.Bits, m: p.M}
	for _, t := range narrowTiles {
		if n.tokens == 0 && p.M <= t.tokens && (n.bits == 4 || t.tokens == 8) {
			n.tile = t
		}
	}
	n.steps, _ = support.Records(p.N, p.K)
	if !byWgmma(a) || n.tokens == 0 || n.steps < narrowSteps {
		return nil
	}
	n.groups = planning.DivideUp(p.N, narrowRows)
	var all []narrow
	for n.parts = 1; n.parts <= 8; n.parts *= 2 {
		n.windows = planning.DivideUp(planning.DivideUp(n.steps, n.parts), narrowSteps)
		if n.windows > narrowWarps || (n.parts-1)*n.windows*narrowSteps >= n.steps {
			continue
		}
		n.rowBlocks = min(n.groups, clusters(a, n.parts))
		n.rowBlocks = planning.DivideUp(n.groups, n.most()) // as few as keep the maximum load
		// Prefetching all groups at once takes 1 us longer on an H200.
		for n.early = 0; n.early <= 1 && n.shared() <= a.SharedMax; n.early++ {
			all = append(all, n)
		}
	}
	return all
}

// The constants of the time model that differ from [choice].
const (
	// narrowStartSeconds is the cost of a launch, with its first loads and last sums.
	narrowStartSeconds = 2.7e-6
	// narrowClusterSeconds is the cost per block to synchronize and exchange sums.
	narrowClusterSeconds = 0.37e-6
	// narrowWordCycles is a scheduler's cost for a warp's word of 4-bit weights, and narrowTokenCycles the
	// cost for each 8 tokens per word.
	narrowWordCycles  = 2.4
	narrowTokenCycles = 9.6
)

func (n narrow) seconds(a planning.Arch, p Problem) float64 {
	clock := a.ClockMHz * 1e6 * clockShare
	// Warps per scheduler on the busiest multiprocessor; every warp has as many rounds.
	warps := float64(n.windows*n.sets()) / 4
	words := warps * float64(planning.DivideUp(n.most(), n.sets())*narrowSteps*8)
	cycles := narrowWordCycles + narrowTokenCycles*float64(n.tokens/8)
	if n.bits == 8 {
		cycles *= 1.4
	}
	tokens := float64(n.windows*narrowSteps*support.RecordK*2) * float64(p.M)
	t := narrowStartSeconds + tokens/(planning.L2PerClock(a)*clock)
	if n.parts > 1 {
		t += narrowClusterSeconds * float64(n.parts)
	}
	times := []float64{words * cycles / clock}
	if a.Bandwidth > 0 {
		times = append(times, float64(support.RecordsBytes(p.Task))/(a.Bandwidth*memoryShare))
	}
	return t + planning.Norm(overlap, times...)
}

// label is "8x112 narrow early parts 4": rows and columns of C per block, and blocks along K.
func (n narrow) label() string {
	return inParts(fmt.Sprintf("%dx%d narrow%s", n.tokens, n.columns(), early(n.early)), n.parts)
}

// early labels weights that are prefetched before the predecessor ends.
func early(count int) string {
	if count == 0 {
		return ""
	}
	return " early"
}

func (n narrow) columns() int { return n.most() * narrowRows }

func (n narrow) plan(a planning.Arch, p Problem) gemm.Plan {
	plan := partsPlan(a, n.label(), n.seconds(a, p), n.rowBlocks, n.parts)
	// Tokens are copied by 16 bytes.
	plan.Stages, plan.Tiling.Tile = 1, [3]int{n.tokens, n.columns(), n.windows * narrowSteps * support.RecordK}
	return realigned(plan, a, p, n.call)
}

func (n narrow) call(p Problem, at gemm.Addresses, lda int) planning.Call {
	k := partsCall(symbol(p, "narrow_", n.tile), n.shared(), narrowThreads, n.rowBlocks, n.parts)
	k.Args.Pointer(at.A).Pointer(at.B).Pointer(at.C).Int64(int64(lda * p.DType.Size())).Int64(int64(p.LDC))
	k.Args.Int32(p.M, p.N, p.K, n.steps, n.windows, planning.DivideUp(1024, n.windows), n.sets())
	k.Args.Int32(n.groups/n.rowBlocks, n.groups%n.rowBlocks, n.most(), n.scratch(), planning.OneIf(p.Aligned.C >= 4), n.early).Align(8)
	k.Args.Int64(evictFirst).Align(8)
	return k
}
