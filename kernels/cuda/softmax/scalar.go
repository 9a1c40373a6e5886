package softmax

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// scalarTile is the division of rows that are read element by element: elements per lane, and rows per warp.
type scalarTile struct{ elements, rows int }

// Constants of softmax_scalar.cu, and the columns from which it is faster than rows in shared memory.
const (
	scalarThreads = 128
	scalarColumns = 257
)

// Issue cycles of a warp: fixed, and per element of a lane.
const (
	scalarTurn    = 90
	scalarElement = 6
)

// scalarTileOf returns the smallest tile that holds a row; ok is false if there is no such tile.
func (p Problem) scalarTileOf() (t scalarTile, ok bool) {
	if p.DType != kernels.FP32 || p.columns < scalarColumns {
		return t, false
	}
	for _, t := range scalarTiles {
		if 32*t.elements >= p.columns {
			return t, true
		}
	}
	return t, false
}

func (p Problem) scalarPlans(a planning.Arch) []plan {
	t, ok := p.scalarTileOf()
	if !ok {
		return nil
	}
	p.keep = true
	kernel := fmt.Sprintf("%s_%dx%d", p.kernel("scalar", anyRows), t.elements, t.rows)
	perSM := residentBlocks(a, kernel, scalarThreads, 0)
	if perSM == 0 {
		return nil
	}
	each := scalarThreads / 32 * t.rows
	issued := scalarTurn + scalarElement*float64(t.elements*t.rows)
	w := work{
		blocks: planning.DivideUp(p.rows, each), threads: scalarThreads, perSM: perSM,
		held:   float64(each*p.columns*p.DType.Size()) * p.seen(),
		passes: 1, meeting: warpMeeting, sharing: 1, alone: stagedLone * issued / (a.ClockMHz * 1e6),
	}
	w.issued = float64(w.blocks*scalarThreads/32) * issued
	if t.elements*p.DType.Size() >= wideLane && p.form() == wholeRows {
		w.lost = wideLoss
	}
	label := fmt.Sprintf("scalar %d elements %d rows", t.elements, t.rows)
	return []plan{w.plan(a, p, label, each, p.columns, func(at Addresses) planning.Call {
		return p.call(a, kernel, w.blocks, scalarThreads, 1, at)
	})}
}
