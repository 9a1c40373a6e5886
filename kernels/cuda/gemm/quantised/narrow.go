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
	narrowMostWarps = 32
	narrowSteps     = 4   // of K in a loop; a window has as many, or twice, four times …
	narrowRows      = 16  // of weights in a group
	narrowSums      = 512 // bytes of a warp's sums of a group for 8 tokens
	narrowBarriers  = 48  // bytes
	evictFirst      = 0x12F0000000000000
)

// narrow is how the work of quantised_narrow.cuh is dealt out: every block has as long a part of K and
// nearly as many groups of rows.
type narrow struct {
	tile
	bits      int
	m         int // rows of A
	steps     int // of K
	parts     int // of K: the blocks of a cluster
	warps     int // of a block: with half of the most there is room for one of the next launch
	windows   int // that a part has
	shift     int // of a window's steps: narrowSteps << shift
	groups    int // of rows
	rowBlocks int // that share them
	early     int // groups of a warp that a launch asks for before the one before has ended
}

// span is how many steps a window has.
func (n narrow) span() int { return narrowSteps << n.shift }

// sets of warps share a block's groups, each set with a warp for every window.
func (n narrow) sets() int { return n.warps / n.windows }

// rounds is how many groups a set has one after the other.
func (n narrow) rounds() int { return planning.DivideUp(n.most(), n.sets()) }

// most is how many groups a block may have.
func (n narrow) most() int { return planning.DivideUp(n.groups, n.rowBlocks) }

// sums is how many bytes all sums of a block take, of one window.
func (n narrow) sums() int { return n.most() * n.tokens / 8 * narrowSums }

// scratch is where sums begin: behind the tokens of all windows, which give way to the sums of all
// parts, and barriers.
func (n narrow) scratch() int {
	tokens := n.windows * n.span() * support.RecordK * 2 * n.m
	gathered := planning.DivideUp(n.sums()/narrowSums, n.parts) * n.parts * narrowSums
	return max(tokens, gathered) + narrowBarriers
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
	for n.warps = narrowMostWarps; n.warps >= narrowMostWarps/2; n.warps /= 2 {
		for n.parts = 1; n.parts <= 8; n.parts *= 2 {
			n.rowBlocks = min(n.groups, clusters(a, n.parts))
			if n.warps == narrowMostWarps {
				n.rowBlocks = planning.DivideUp(n.groups, n.most()) // as few as have no more to do
			}
			// Otherwise every multiprocessor has one, so that each has room for one of the next launch, not for two.
			if !n.fit(sharedOf(a, narrowMostWarps/n.warps)) {
				continue
			}
			all = append(all, n)
			if n.warps < narrowMostWarps {
				for _, n.early = range []int{1, n.rounds()} {
					if n.early > all[len(all)-1].early {
						all = append(all, n)
					}
				}
				n.early = 0
			}
		}
	}
	return all
}

// fit takes the shortest windows of which a block has no more than warps, and whose sums fit its shared
// memory.
func (n *narrow) fit(shared int) bool {
	for n.shift = 0; n.span() <= n.steps; n.shift++ {
		n.windows = planning.DivideUp(planning.DivideUp(n.steps, n.parts), n.span())
		if (n.parts-1)*n.windows*n.span() >= n.steps {
			return false
		}
		if n.windows <= n.warps && n.shared() <= shared {
			return true
		}
	}
	return false
}

// The model of times, besides what it has in common with that of [choice].
const (
	// narrowStartSeconds is a launch, with its first loads and last sums, and narrowOverlappedSeconds one that
	// begins beside the launch before.
	narrowStartSeconds, narrowOverlappedSeconds = 2.65e-6, 1.6e-6
	// narrowClusterSeconds is what blocks take to meet and to send each other sums, for each of them.
	narrowClusterSeconds = 0.25e-6
	// narrowWordCycles is what a scheduler takes for a warp's word of 4-bit weights, and narrowTokenCycles
	// for each 8 tokens that it meets.
	narrowWordCycles  = 5.2
	narrowTokenCycles = 9.1
)

// seconds is what the model expects of one launch.
func (n narrow) seconds(a planning.Arch, p Problem) float64 {
	clock := a.ClockMHz * 1e6 * clockShare
	// Of a scheduler, of the busiest multiprocessor: every warp has as many rounds.
	warps := float64(n.windows*n.sets()) / 4
	words := warps * float64(n.rounds()*n.span()*8)
	cycles := narrowWordCycles + narrowTokenCycles*float64(n.tokens/8)
	if n.bits == 8 {
		cycles *= 1.4
	}
	tokens := float64(n.windows*n.span()*support.RecordK*2) * float64(p.M)
	t := narrowStartSeconds
	if n.warps < narrowMostWarps {
		t = narrowOverlappedSeconds
	}
	t += tokens / (planning.L2PerClock(a) * clock)
	if n.parts > 1 {
		t += narrowClusterSeconds * float64(n.parts)
	}
	times := []float64{words * cycles / clock}
	if a.Bandwidth > 0 {
		times = append(times, float64(support.RecordsBytes(p.quantised()))/(a.Bandwidth*memoryShare))
	}
	return t + norm(overlap, times...)
}

// label is "8x112 narrow 16 warps early 2 parts 4": rows and columns of C that a block has, groups asked for
// ahead, and blocks along K.
func (n narrow) label() string {
	s := fmt.Sprintf("%dx%d narrow %d warps", n.tokens, n.columns(), n.warps)
	if n.early > 0 {
		s += fmt.Sprintf(" early %d", n.early)
	}
	return inParts(s, n.parts)
}

func (n narrow) columns() int { return n.most() * narrowRows }

// plan is that of a problem with operands so aligned.
func (n narrow) plan(a planning.Arch, p Problem) gemm.Plan {
	slots := max(1, a.SMs/n.parts)
	// Tokens are copied by 16 bytes.
	return realigned(gemm.Plan{
		Label: n.label(), Stages: 1, Slots: slots, Seconds: n.seconds(a, p),
		Tiling: kernels.Tiling{
			Tile:  [3]int{n.tokens, n.columns(), n.windows * n.span() * support.RecordK},
			Waves: float64(n.rowBlocks) / float64(slots), Split: n.parts,
			Orientation: kernels.OrientationTransposed,
		},
	}, a, p, n.call)
}

// call launches quantised_narrow.cuh: struct NarrowParams there.
func (n narrow) call(p Problem, at gemm.Addresses, lda int) planning.Call {
	k := planning.Call{
		Kernel: symbol(p, "narrow_", n.tile), Shared: n.shared(), Overlap: true,
		Grid: planning.Dim3{X: n.rowBlocks, Y: n.parts}, Block: planning.Dim3{X: 32 * n.warps},
	}
	if n.parts > 1 {
		k.Cluster = planning.Dim3{X: 1, Y: n.parts}
	}
	k.Args.Pointer(at.A).Pointer(at.B).Pointer(at.C).Int64(int64(lda * p.DType.Size())).Int64(int64(p.LDC))
	k.Args.Int32(p.M, p.N, p.K, n.steps, n.windows, n.shift, planning.DivideUp(1024, n.windows), n.sets())
	k.Args.Int32(n.groups/n.rowBlocks, n.groups%n.rowBlocks, n.most(), n.scratch(), planning.OneIf(p.Aligned.C >= 4), n.early).Align(8)
	k.Args.Int64(evictFirst).Align(8)
	return k
}
