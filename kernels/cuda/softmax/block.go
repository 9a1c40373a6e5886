package softmax

import (
	"fmt"
	"math/bits"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// block is softmax_block.cu: a row in the registers of a block.
type block struct{}

// cluster is softmax_cluster.cu and softmax_ahead.cu: a row in the registers of the blocks of a cluster.
type cluster struct{}

const rowThreads = 1024

// mostCluster is the maximum cluster size on every GPU, wideCluster on 9.0. Wide clusters wait for a whole
// free GPC, and are slower than 8 blocks if two or more blocks of those fit on a multiprocessor. They are
// used for rows of more than wideBytes.
const (
	mostCluster = 8
	wideCluster = 16
	wideBytes   = 400 << 10
)

func (p Problem) widest(a planning.Arch) int {
	if a.CC == 90 && p.kept()*pieceBytes > wideBytes {
		return wideCluster
	}
	return mostCluster
}

type blockTile struct{ vectors int }

func (block) Name() string   { return "block" }
func (cluster) Name() string { return "cluster" }

func (block) Describe(planning.Arch) string { return "a row in the registers of a block, in one pass" }
func (cluster) Describe(planning.Arch) string {
	return "a row in the registers of the blocks of a cluster, which meet in distributed shared memory, in one pass"
}

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

// Candidates differ in the pieces per thread.
func (block) Candidates(a planning.Arch, p Problem) []plan { return p.rowPlans(a, "block", 1) }

// Candidates differ in the pieces per thread and in the blocks per row.
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

func (p Problem) rowPlans(a planning.Arch, name string, blocks int) []plan {
	var all []plan
	share := max(1, planning.DivideUp(p.kept(), blocks))
	for _, t := range blockTiles {
		threads := planning.DivideUp(planning.DivideUp(share, t.vectors), 32) * 32
		if threads > rowThreads {
			continue
		}
		if len(all) > 0 && threads == 32 && share <= 32*t.vectors/2 {
			break // more pieces than the row has
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
		all = append(all, w.plan(a, p, label, 1, planning.DivideUp(p.columns, blocks), func(at Addresses) planning.Call {
			c := p.call(a, kernel, w.blocks, threads, 1, at)
			if blocks > 1 {
				c.Cluster = planning.Dim3{X: blocks}
			}
			return c
		}))
	}
	return all
}

// aheadThreads is the minimum threads of a prefetching block. Smaller blocks are so many on a multiprocessor
// that loads and stores overlap anyway.
const aheadThreads = 128

const leastInTurn = 6

// countersBytes is the size of struct Counters in softmax_ahead.cu.
const countersBytes = 8

// aheadMeeting is the extra time of a cluster barrier after which all threads have read a row from shared
// memory, in seconds.
const aheadMeeting = 0.5e-6

// aheadPlans returns the plans of softmax_ahead.cu with the given blocks per row. Clusters process rows in
// sequence and prefetch the next.
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
		// At most the concurrent clusters, each of which takes rows until all are done.
		if groups := min(perSM*a.SMs/blocks, p.rows/leastInTurn); groups > 0 {
			w := work{
				blocks: p.rows * blocks, threads: threads, perSM: perSM, held: float64(share * pieceBytes), passes: 1,
				meeting: aheadMeeting + blockMeeting + warpOfMeeting*float64(threads/32) + clusterMeeting*float64(bits.Len(uint(blocks))-1),
				vectors: t.vectors, sharing: blocks, inTurn: float64(p.rows) / float64(groups),
				slots: float64(p.rows) * float64(blocks) * float64(threads*t.vectors),
			}
			label := fmt.Sprintf("%d blocks %d threads %d vectors in turn", blocks, threads, t.vectors)
			one := w.plan(a, p, label, 1, planning.DivideUp(p.columns, blocks), func(at Addresses) planning.Call {
				c := p.call(a, kernel, groups*blocks, threads, 1, at)
				c.Cluster, c.Shared = planning.Dim3{X: blocks}, share*pieceBytes
				return c
			})
			one.Flags = countersBytes
			all = append(all, one)
		}
	}
	return all
}
