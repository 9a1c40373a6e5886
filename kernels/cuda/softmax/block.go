package softmax

import (
	"fmt"
	"math/bits"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// block is softmax_block.cu: a row in the registers of a block.
type block struct{}

// cluster is softmax_cluster.cu and softmax_ahead.cu: a row in the registers of the blocks of a cluster.
type cluster struct{}

// rowThreads is how many threads a block has at most.
const rowThreads = 1024

// mostCluster is how many blocks a cluster has at most where every GPU has it, and wideCluster where 9.0 has it. They wait
// for a whole one of the GPU's groups of multiprocessors, and were slower than 8 for rows of which two or more blocks
// of those run on a multiprocessor: wider ones are for rows of more than wideBytes.
const (
	mostCluster = 8
	wideCluster = 16
	wideBytes   = 400 << 10
)

// widest is how many blocks may share a row.
func (p Problem) widest(a planning.Arch) int {
	if a.CC == 90 && p.kept()*pieceBytes > wideBytes {
		return wideCluster
	}
	return mostCluster
}

// blockTile is how many pieces a thread has.
type blockTile struct{ vectors int }

func (block) Name() string   { return "block" }
func (cluster) Name() string { return "cluster" }

func (block) Describe(planning.Arch) string { return "a row in the registers of a block, in one pass" }
func (cluster) Describe(planning.Arch) string {
	return "a row in the registers of the blocks of a cluster, which meet in distributed shared memory, in one pass"
}

// longReason says why a row does not fit into so many blocks, empty where it does.
func (p Problem) longReason(blocks int) string {
	most := blocks * rowThreads * blockTiles[len(blockTiles)-1].vectors
	if p.kept() > most {
		return fmt.Sprintf("takes rows of up to %d bytes, not %d columns", most*pieceBytes, p.columns)
	}
	return ""
}

func (block) Supports(a planning.Arch, p Problem) string {
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	return p.longReason(1)
}

func (cluster) Supports(a planning.Arch, p Problem) string {
	switch reason := planning.TypeReason(a, p.DType); {
	case reason != "":
		return reason
	case a.CC < 90:
		return fmt.Sprintf("needs clusters of blocks, of compute capability 9.0; this GPU has %d.%d", a.CC/10, a.CC%10)
	case p.rows > planning.LargestExtent/wideCluster:
		return fmt.Sprintf("takes up to %d rows, not %d", planning.LargestExtent/wideCluster, p.rows)
	case p.pieces() < 2:
		return "takes rows of more than 16 bytes"
	}
	return p.longReason(mostCluster)
}

func (b block) Plan(a planning.Arch, p Problem) plan   { return planning.Fastest(b.Candidates(a, p)) }
func (c cluster) Plan(a planning.Arch, p Problem) plan { return planning.Fastest(c.Candidates(a, p)) }

// Candidates differ in how many pieces a thread has.
func (block) Candidates(a planning.Arch, p Problem) []plan { return p.rowPlans(a, "block", 1) }

// Candidates differ in that and in how many blocks share a row.
func (cluster) Candidates(a planning.Arch, p Problem) []plan {
	var all []plan
	for blocks := 2; blocks <= p.widest(a); blocks *= 2 {
		all = append(all, p.rowPlans(a, "cluster", blocks)...)
		if blocks <= mostCluster {
			all = append(all, p.aheadPlans(a, blocks)...)
		}
	}
	return all
}

// rowPlans are the plans by which so many blocks share a row.
func (p Problem) rowPlans(a planning.Arch, name string, blocks int) []plan {
	var all []plan
	share := max(1, planning.DivideUp(p.kept(), blocks))
	for _, t := range blockTiles {
		threads := planning.DivideUp(planning.DivideUp(share, t.vectors), 32) * 32
		if threads > rowThreads {
			continue
		}
		if len(all) > 0 && threads == 32 && share <= 32*t.vectors/2 {
			break // more pieces than there are
		}
		kernel := fmt.Sprintf("%s_%d", p.kernel(name, p.form()), t.vectors)
		perSM := residentBlocks(a, kernel, threads, 0)
		if perSM == 0 {
			continue
		}
		w := work{
			blocks: p.rows * blocks, threads: threads, perSM: perSM,
			held: float64(share*pieceBytes) * p.seen(), passes: 1, meeting: blockMeeting + warpOfMeeting*float64(threads/32),
			vectors: t.vectors, sharing: blocks, slots: float64(p.rows) * float64(blocks) * float64(threads*t.vectors),
		}
		label := fmt.Sprintf("%d threads %d vectors", threads, t.vectors)
		if blocks > 1 {
			w.meeting += clusterMeeting * float64(bits.Len(uint(blocks))-1)
			label = fmt.Sprintf("%d blocks %s", blocks, label)
		}
		all = append(all, plan{
			Label:   label,
			Tiling:  kernels.Tiling{Tile: [3]int{1, planning.DivideUp(p.columns, blocks), 0}, Waves: w.waves(a), Split: 1},
			Seconds: w.seconds(a, p),
			Bind: func(at Addresses) []planning.Call {
				c := p.call(a, kernel, w.blocks, threads, 1, at)
				if blocks > 1 {
					c.Cluster = planning.Dim3{X: blocks}
				}
				return []planning.Call{c}
			},
		})
	}
	return all
}

// aheadThreads is how many threads a block has at least that fetches ahead: blocks of fewer are so many on a
// multiprocessor that some load while others write.
const aheadThreads = 128

// leastInTurn is how many rows a cluster has one after the other at least, on average.
const leastInTurn = 6

// countersBytes is the size of struct Counters in softmax_ahead.cu.
const countersBytes = 8

// aheadMeeting is what it takes beyond the meeting of a cluster that all threads have taken a row from shared
// memory, in seconds.
const aheadMeeting = 0.5e-6

// aheadPlans are the plans of softmax_ahead.cu, by which so many blocks share rows, one after the other, and
// fetch the next while they have one.
func (p Problem) aheadPlans(a planning.Arch, blocks int) []plan {
	if p.form() == anyRows || p.kept() < 2*blocks {
		return nil
	}
	var all []plan
	share := planning.DivideUp(p.kept(), blocks)
	for _, t := range aheadTiles {
		threads := planning.DivideUp(planning.DivideUp(share, t.vectors), 32) * 32
		kernel := fmt.Sprintf("%s_%d", p.kernel("ahead", p.form()), t.vectors)
		perSM := 0
		if threads <= rowThreads && threads >= aheadThreads {
			perSM = residentBlocks(a, kernel, threads, share*pieceBytes)
		}
		// No more clusters than run at a time: each takes rows until none is left.
		if groups := min(perSM*a.SMs/blocks, p.rows/leastInTurn); groups > 0 {
			w := work{
				blocks: p.rows * blocks, threads: threads, perSM: perSM, held: float64(share * pieceBytes), passes: 1,
				meeting: aheadMeeting + blockMeeting + warpOfMeeting*float64(threads/32) + clusterMeeting*float64(bits.Len(uint(blocks))-1),
				vectors: t.vectors, sharing: blocks, inTurn: float64(p.rows) / float64(groups), slots: float64(p.rows) * float64(blocks) * float64(threads*t.vectors),
			}
			all = append(all, plan{
				Label:   fmt.Sprintf("%d blocks %d threads %d vectors in turn", blocks, threads, t.vectors),
				Tiling:  kernels.Tiling{Tile: [3]int{1, planning.DivideUp(p.columns, blocks), 0}, Waves: w.waves(a), Split: 1},
				Seconds: w.seconds(a, p),
				Flags:   countersBytes,
				Bind: func(at Addresses) []planning.Call {
					c := p.call(a, kernel, groups*blocks, threads, 1, at)
					c.Cluster, c.Shared = planning.Dim3{X: blocks}, share*pieceBytes
					return []planning.Call{c}
				},
			})
		}
	}
	return all
}
