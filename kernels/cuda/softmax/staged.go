package softmax

import (
	"fmt"
	"math/bits"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// stagedTile is the division of a row in shared memory: lanes per row, and elements per lane. With one lane
// per row, elements equals the columns.
type stagedTile struct{ lanes, elements int }

// Constants of softmax_staged.cu.
const (
	stagedThreads = 128
	stagedRows    = 32 // rows processed together, if a warp has several
	stagedChunk   = 4  // elements of a lane that are skipped together
)

// stagedBytes are the approximate sizes of a block's rows.
var stagedBytes = []int{2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10}

// Lost fractions of memory time: if a block's range ends within a sector, which is then written in two parts,
// and if large rows per lane, which other kernels read 16 bytes at a time, leave few warps.
const (
	sectorBytes = 32 // minimum memory access size
	sectorLoss  = 0.015
	wideLane    = 128
	wideLoss    = 0.03
)

// Issue cycles of a warp: fixed per turn, per element of each lane, and per step of a sum over lanes.
const (
	stagedTurn    = 48
	stagedElement = 7
	stagedStep    = 1
	stagedLone    = 4 // cycles of a lone warp per issue cycle
	// stagedMeeting is the extra time through shared memory, in and out, compared with a load from memory.
	stagedMeeting = 0.2e-6
)

func (p Problem) stagedTilesOf() []stagedTile {
	var all []stagedTile
	for _, t := range stagedTiles {
		if t.lanes == 1 && t.elements == p.columns {
			return []stagedTile{t}
		}
		if t.lanes > 1 && t.lanes*t.elements >= p.columns && len(all) < 3 && (len(all) == 0 || all[len(all)-1].lanes < t.lanes) {
			all = append(all, t)
		}
	}
	return all
}

func (p Problem) stagedPlans(a planning.Arch) []plan {
	if p.queries != 0 || p.based < pieceBytes {
		return nil
	}
	p.keep = true
	var all []plan
	for _, t := range p.stagedTilesOf() {
		unit := stagedThreads / 32
		if t.lanes < 32 {
			unit = stagedRows
		}
		for unit*p.columns*p.DType.Size()%pieceBytes != 0 {
			unit *= 2
		}
		last := 0
		for _, bytes := range stagedBytes {
			each := max(1, bytes/(unit*p.columns*p.DType.Size())) * unit
			if each = min(each, planning.DivideUp(p.rows, unit)*unit); each == last {
				continue
			}
			last = each
			if plan, ok := t.plan(a, p, each); ok {
				all = append(all, plan)
			}
		}
	}
	return all
}

func (t stagedTile) plan(a planning.Arch, p Problem, each int) (result plan, ok bool) {
	kernel := fmt.Sprintf("%s_%dx%d", p.kernel("staged", anyRows), t.lanes, t.elements)
	shared := planning.DivideUp(each*p.columns*p.DType.Size(), pieceBytes) * pieceBytes
	perSM := residentBlocks(a, kernel, stagedThreads, shared)
	if perSM == 0 {
		return plan{}, false
	}
	used := planning.DivideUp(planning.DivideUp(p.columns, t.lanes), stagedChunk) * stagedChunk // elements of a lane
	if t.lanes == 1 {
		used = t.elements
	}
	turns := float64(planning.DivideUp(each, stagedRows) * t.lanes) // of a block
	if t.lanes == 32 {
		turns = float64(each)
	}
	issued := stagedTurn + stagedElement*float64(used) + stagedStep*2*float64(bits.Len(uint(t.lanes))-1)
	// A multiprocessor does one shared-memory access of a warp per cycle, plus one for each bank conflict.
	issued = max(issued, partsOfSM*2*float64(used*t.conflicts(p)))
	w := work{
		blocks: planning.DivideUp(p.rows, each), threads: stagedThreads, perSM: perSM, held: float64(shared), passes: 1,
		meeting: stagedMeeting, sharing: 1,
		alone: max(1, turns/(stagedThreads/32)) * stagedLone * issued / (a.ClockMHz * 1e6),
	}
	w.issued = float64(w.blocks) * turns * issued
	if each*p.columns*p.DType.Size()%sectorBytes != 0 {
		w.lost += sectorLoss
	}
	if t.elements*p.DType.Size() >= wideLane && p.form() == wholeRows {
		w.lost += wideLoss
	}
	label := fmt.Sprintf("staged %d lanes %d elements %d rows", t.lanes, t.elements, each)
	return w.plan(a, p, label, each, p.columns, func(at Addresses) planning.Call {
		c := p.call(a, kernel, w.blocks, stagedThreads, each, at)
		c.Shared = shared
		return c
	}), true
}

// conflicts returns the maximum words of one shared-memory bank that a warp's lanes access at once.
func (t stagedTile) conflicts(p Problem) int {
	const banks, word = 32, 4
	var wanted [banks][]int
	most := 0
	for lane := range 32 {
		address := (lane/t.lanes*t.lanes*p.columns + lane%t.lanes) * p.DType.Size() / word
		known := false
		for _, other := range wanted[address%banks] {
			known = known || other == address
		}
		if !known {
			wanted[address%banks] = append(wanted[address%banks], address)
			most = max(most, len(wanted[address%banks]))
		}
	}
	return most
}
