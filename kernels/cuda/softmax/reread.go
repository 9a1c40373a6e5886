package softmax

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// reread is softmax_reread.cu: rows of any length in two passes, each by one block or several.
type reread struct{}

// Constants of softmax_reread.cu.
const (
	rereadThreads = 512
	rereadAtOnce  = 4 // pieces in flight per thread
	// rereadMost is the maximum blocks per row; it bounds the memory for their exchange.
	rereadMost = 256
)

func (reread) Name() string { return "reread" }

func (reread) Describe(planning.Arch) string {
	return "rows of any length, one or more blocks to a row, largest and sum in a first pass, the output in a second"
}

func (reread) Supports(a planning.Arch, p Problem) string { return planning.TypeReason(a, p.DType) }

func (r reread) Plan(a planning.Arch, p Problem) plan { return planning.Fastest(r.Candidates(a, p)) }

// rereadKernel returns the kernel for p. Rows with separate ends use the general one.
func (p Problem) rereadKernel() string {
	if p.form() == wholeRows {
		return p.kernel("reread", wholeRows)
	}
	return p.kernel("reread", anyRows)
}

func (reread) Candidates(a planning.Arch, p Problem) []plan {
	var all []plan
	resident := max(1, residentBlocks(a, p.rereadKernel(), rereadThreads, 0)) * a.SMs
	for blocks := 1; blocks <= min(resident, rereadMost); blocks *= 2 {
		if blocks > 1 && (blocks-1)*rereadThreads >= p.pieces() {
			break // blocks without a piece
		}
		all = append(all, p.rereadPlan(a, blocks, resident))
	}
	return all
}

func (p Problem) rereadPlan(a planning.Arch, blocks, resident int) plan {
	groups := min(p.rows, resident/blocks)
	share := planning.DivideUp(p.pieces(), blocks)
	rounds := planning.DivideUp(p.rows, groups)
	step := min(share, rereadThreads*rereadAtOnce)
	w := work{
		blocks: p.rows * blocks, threads: rereadThreads, perSM: resident / a.SMs,
		held: float64(step*pieceBytes) * p.seen(), passes: 2 * float64(planning.DivideUp(share, step)),
		meeting: blockMeeting + warpOfMeeting*rereadThreads/32, vectors: rereadAtOnce, sharing: 1, walks: true,
		parts: p.form() != wholeRows,
		again: 1, slots: 2 * float64(p.rows) * float64(blocks) * float64(planning.DivideUp(share, rereadThreads)*rereadThreads),
	}
	// The second read of the blocks' rows comes from L2, if they fit next to the output.
	if float64(groups)*float64(p.columns*p.DType.Size()) <= float64(a.L2)/3 {
		w.again = 0.5
	}
	if blocks > 1 {
		w.meeting += exchangeMeeting
	}
	result := w.plan(a, p, fmt.Sprintf("%d blocks", blocks), 1, planning.DivideUp(p.columns, blocks), func(at Addresses) planning.Call {
		c := p.call(a, p.rereadKernel(), groups*blocks, rereadThreads, blocks, at)
		c.Cooperative = blocks > 1
		return c
	})
	result.Tiling.Waves = float64(rounds) * planning.Waves(a, groups*blocks, w.perSM)
	if blocks > 1 {
		result.Flags = 2 * 8 * int64(groups) * int64(blocks) * int64(blocks)
	}
	return result
}
