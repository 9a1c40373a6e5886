package softmax

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// warp is softmax_warp.cu, softmax_scalar.cu and softmax_staged.cu: short rows in registers, each by a warp
// or part of one.
type warp struct{}

const warpThreads = 128

// warpTile is the division of a row: lanes per row, pieces per lane, and the maximum concurrent rows per
// group of lanes.
type warpTile struct{ lanes, vectors, rows int }

func (warp) Name() string { return "warp" }

func (warp) Describe(planning.Arch) string {
	return "rows in registers, one or more to a warp, in one pass, by way of shared memory where they begin anywhere"
}

func (warp) tileOf(p Problem) (t warpTile, f form, ok bool) {
	if f = p.form(); f == endsApart {
		f = anyRows
	}
	pieces := p.pieces()
	for _, t := range warpTiles {
		if t.lanes*t.vectors >= pieces {
			return t, f, true
		}
	}
	return t, f, false
}

func (w warp) Supports(a planning.Arch, p Problem) string {
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	_, _, whole := w.tileOf(p)
	if _, scalar := p.scalarTileOf(); !whole && !scalar {
		last := warpTiles[len(warpTiles)-1]
		return fmt.Sprintf("takes rows of up to %d bytes, not %d columns", last.lanes*last.vectors*pieceBytes, p.columns)
	}
	return ""
}

func (w warp) Plan(a planning.Arch, p Problem) plan { return planning.Fastest(w.Candidates(a, p)) }

// Candidates are plans with one or more rows per group of lanes, rows read element by element, and rows in
// shared memory.
func (w warp) Candidates(a planning.Arch, p Problem) []plan {
	var all []plan
	if t, f, ok := w.tileOf(p); ok {
		for each := t.rows; each >= 1; each /= 2 {
			all = append(all, t.plan(a, p, f, each))
		}
	}
	return append(append(all, p.scalarPlans(a)...), p.stagedPlans(a)...)
}

func (t warpTile) plan(a planning.Arch, p Problem, f form, each int) plan {
	kernel := fmt.Sprintf("%s_%dx%d", p.kernel("warp", f), t.lanes, t.vectors)
	groups := warpThreads / t.lanes
	w := work{
		blocks: planning.DivideUp(p.rows, groups*each), threads: warpThreads, perSM: max(1, residentBlocks(a, kernel, warpThreads, 0)),
		vectors: t.rows * t.vectors, held: float64(groups*each*p.columns*p.DType.Size()) * p.seen(), passes: 1, meeting: warpMeeting,
		sharing: 1,
		parts:   f == anyRows,
	}
	w.slots = float64(w.blocks) * float64(warpThreads*each*t.vectors)
	return w.plan(a, p, fmt.Sprintf("%d lanes %d rows", t.lanes, each), groups*each, p.columns, func(at Addresses) planning.Call {
		return p.call(a, kernel, w.blocks, warpThreads, each, at)
	})
}
