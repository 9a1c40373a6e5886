package quantised

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// What quantised_narrow.cuh fixes.
const (
	narrowThreads = 1024
	narrowWarps   = narrowThreads / 32
	narrowSteps   = 4   // of K that a warp has
	narrowRows    = 16  // of weights in a group
	narrowSums    = 512 // bytes of a warp's sums of a group for 8 tokens
	evictFirst    = 0x12F0000000000000
)

// narrow is how the work of quantised_narrow.cuh is dealt out: every block has as long a part of K and
// nearly as many groups of rows.
type narrow struct {
	tile
	bits      int
	m         int // rows of A
	steps     int // of K
	parts     int // of K: the blocks of a cluster
	windows   int // of narrowSteps that a part has
	groups    int // of rows
	rowBlocks int // that share them
	early     int // groups of a warp that are asked for at once, ahead of the predecessor's end: none or one
}

// sets of warps share a block's groups, each set with a warp for every window.
func (n narrow) sets() int { return narrowWarps / n.windows }

// most is how many groups a block may have.
func (n narrow) most() int { return planning.DivideUp(n.groups, n.rowBlocks) }

// sums is how many bytes all sums of a block take, of one window.
func (n narrow) sums() int { return n.most() * n.tokens / 8 * narrowSums }

// scratch is where sums begin: behind the tokens of all windows, which give way to the sums of all
// parts, and a barrier.
func (n narrow) scratch() int {
	tokens := n.windows * narrowSteps * support.RecordK * 2 * n.m
	gathered := planning.DivideUp(n.sums()/narrowSums, n.parts) * n.parts * narrowSums
	return max(tokens, gathered) + 16
}

func (n narrow) shared() int { return n.scratch() + n.windows*n.sums() }

// clusters is how many clusters of so many blocks, each of which fills a multiprocessor, surely run at
// the same time: of the groups of multiprocessors that clusters don't cross, some are smaller.
func clusters(a planning.Arch, size int) int {
	if size <= 2 {
		return max(1, a.SMs/size)
	}
	return max(1, (a.SMs/8-1)*8/size)
}

// narrows are the divisions of the work that may be best for p; none where it has too many rows or too
// little of K.
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
		n.rowBlocks = planning.DivideUp(n.groups, n.most()) // as few as have no more to do
		// To ask for all groups at once took 1 us longer on an H200.
		for n.early = 0; n.early <= 1 && n.shared() <= a.SharedMax; n.early++ {
			all = append(all, n)
		}
	}
	return all
}

// The model of times, besides what it has in common with that of [choice].
const (
	// narrowStartSeconds is a launch, with its first loads and last sums.
	narrowStartSeconds = 2.7e-6
	// narrowClusterSeconds is what blocks take to meet and to send each other sums, for each of them.
	narrowClusterSeconds = 0.37e-6
	// narrowWordCycles is what a scheduler takes for a warp's word of 4-bit weights, and narrowTokenCycles
	// for each 8 tokens that it meets.
	narrowWordCycles  = 2.4
	narrowTokenCycles = 9.6
)

// seconds is what the model expects of one launch.
func (n narrow) seconds(a planning.Arch, p Problem) float64 {
	clock := a.ClockMHz * 1e6 * clockShare
	// Of a scheduler, of the busiest multiprocessor: every warp has as many rounds.
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
		times = append(times, float64(support.RecordsBytes(p.quantised()))/(a.Bandwidth*memoryShare))
	}
	return t + planning.Norm(overlap, times...)
}

// label is "8x112 narrow early parts 4": rows and columns of C that a block has, and blocks along K.
func (n narrow) label() string {
	return inParts(fmt.Sprintf("%dx%d narrow%s", n.tokens, n.columns(), early(n.early)), n.parts)
}

// early is what a label says of weights that are asked for ahead of the predecessor's end.
func early(count int) string {
	if count == 0 {
		return ""
	}
	return " early"
}

func (n narrow) columns() int { return n.most() * narrowRows }

// plan is that of a problem with operands so aligned.
func (n narrow) plan(a planning.Arch, p Problem) gemm.Plan {
	slots := max(1, a.SMs/n.parts)
	// Tokens are copied by 16 bytes.
	return realigned(gemm.Plan{
		Label: n.label(), Stages: 1, Slots: slots, Seconds: n.seconds(a, p),
		Tiling: kernels.Tiling{
			Tile:  [3]int{n.tokens, n.columns(), n.windows * narrowSteps * support.RecordK},
			Waves: float64(n.rowBlocks) / float64(slots), Split: n.parts,
			Orientation: kernels.OrientationTransposed,
		},
	}, a, p, n.call)
}

// call launches quantised_narrow.cuh: struct NarrowParams there.
func (n narrow) call(p Problem, at gemm.Addresses, lda int) planning.Call {
	k := planning.Call{
		Kernel: symbol(p, "narrow_", n.tile), Shared: n.shared(), Overlap: true,
		Grid: planning.Dim3{X: n.rowBlocks, Y: n.parts}, Block: planning.Dim3{X: narrowThreads},
	}
	if n.parts > 1 {
		k.Cluster = planning.Dim3{X: 1, Y: n.parts}
	}
	k.Args.Pointer(at.A).Pointer(at.B).Pointer(at.C).Int64(int64(lda * p.DType.Size())).Int64(int64(p.LDC))
	k.Args.Int32(p.M, p.N, p.K, n.steps, n.windows, planning.DivideUp(1024, n.windows), n.sets())
	k.Args.Int32(n.groups/n.rowBlocks, n.groups%n.rowBlocks, n.most(), n.scratch(), planning.OneIf(p.Aligned.C >= 4), n.early).Align(8)
	k.Args.Int64(evictFirst).Align(8)
	return k
}
