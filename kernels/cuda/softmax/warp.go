package softmax

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// warp is softmax_warp.cu: short rows in registers, each by a warp or a part of one.
type warp struct{}

// warpThreads is what softmax_warp.cu fixes.
const warpThreads = 128

// warpTile is how a row is divided: lanes that share it, pieces of each, and how many rows lanes
// have at once at most.
type warpTile struct{ lanes, vectors, rows int }

func (warp) Name() string { return "warp" }

func (warp) Describe(planning.Arch) string {
	return "rows in registers, one or more to a warp, in one pass"
}

// tileOf is the smallest tile that holds a row.
func (warp) tileOf(p Problem) (t warpTile, ok bool) {
	pieces := p.pieces()
	for _, t := range warpTiles {
		if t.lanes*t.vectors >= pieces {
			return t, true
		}
	}
	return t, false
}

func (w warp) Supports(a planning.Arch, p Problem) string {
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	if _, ok := w.tileOf(p); !ok {
		last := warpTiles[len(warpTiles)-1]
		return fmt.Sprintf("takes rows of up to %d bytes, not %d columns", last.lanes*last.vectors*pieceBytes, p.columns)
	}
	return ""
}

func (w warp) Plan(a planning.Arch, p Problem) plan { return planning.Fastest(w.Candidates(a, p)) }

// Candidates are those of one row to a group of lanes, and of more.
func (w warp) Candidates(a planning.Arch, p Problem) []plan {
	t, _ := w.tileOf(p)
	var all []plan
	for each := t.rows; each >= 1; each /= 2 {
		all = append(all, t.plan(a, p, each))
	}
	return all
}

// plan is that of groups that take each rows.
func (t warpTile) plan(a planning.Arch, p Problem, each int) plan {
	kernel := fmt.Sprintf("%s_%dx%d", p.kernel("warp"), t.lanes, t.vectors)
	groups := warpThreads / t.lanes
	w := work{
		blocks: planning.DivideUp(p.rows, groups*each), threads: warpThreads, perSM: max(1, residentBlocks(a, kernel, warpThreads)),
		vectors: t.rows * t.vectors, held: float64(groups*each*p.columns*p.DType.Size()) * p.seen(), passes: 1, meeting: warpMeeting, sharing: 1,
	}
	w.slots = float64(w.blocks) * float64(warpThreads*each*t.vectors)
	return plan{
		Label:   fmt.Sprintf("%d lanes %d rows", t.lanes, each),
		Tiling:  kernels.Tiling{Tile: [3]int{groups * each, p.columns, 0}, Waves: w.waves(a), Split: 1},
		Seconds: w.seconds(a, p),
		Bind: func(at Addresses) []planning.Call {
			return []planning.Call{p.call(a, kernel, w.blocks, warpThreads, each, at)}
		},
	}
}
