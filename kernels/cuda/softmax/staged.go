package softmax

import (
	"fmt"
	"math/bits"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// stagedTile is how a row in shared memory is divided: lanes that share it, and elements of each. A lane that has
// a row to itself has as many columns as elements.
type stagedTile struct{ lanes, elements int }

// What softmax_staged.cu fixes.
const (
	stagedThreads = 128
	stagedRows    = 32 // that are looked at together, where a warp has several at a time
	stagedChunk   = 4  // elements of a lane that are skipped together
)

// stagedBytes are those of the rows of a block, nearly.
var stagedBytes = []int{2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10}

// What is lost of memory's time: where blocks' stretches end within sectors, which are written in two parts, and where
// lanes have so many bytes of rows that other kernels read 16 at a time that few warps run.
const (
	sectorBytes = 32 // what memory reads and writes at least
	sectorLoss  = 0.015
	wideLane    = 128
	wideLoss    = 0.03
)

// Cycles in which a warp issues instructions: for the elements that it has at once, for one of each
// lane, and for a step of a sum over lanes.
const (
	stagedTurn    = 48
	stagedElement = 7
	stagedStep    = 1
	stagedLone    = 4 // cycles of a warp by itself for one in which it issues
	// stagedMeeting is what the way through shared memory takes, in and out, beyond a load from memory.
	stagedMeeting = 0.2e-6
)

// stagedTilesOf are the smallest tiles that hold a row, of up to three numbers of lanes.
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

// stagedPlans are the plans of blocks that bring several rows to shared memory.
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

// plan is that of blocks that take each rows; ok is false where one does not fit a multiprocessor.
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
	// A multiprocessor has one access of a warp to shared memory in a cycle, and one for each further row of a bank.
	issued = max(issued, partsOfSM*2*float64(used*t.conflicts(p)))
	w := work{
		blocks: planning.DivideUp(p.rows, each), threads: stagedThreads, perSM: perSM, held: float64(shared), passes: 1, meeting: stagedMeeting, sharing: 1,
		alone: max(1, turns/(stagedThreads/32)) * stagedLone * issued / (a.ClockMHz * 1e6),
	}
	w.issued = float64(w.blocks) * turns * issued
	if each*p.columns*p.DType.Size()%sectorBytes != 0 {
		w.lost += sectorLoss
	}
	if t.elements*p.DType.Size() >= wideLane && p.form() == wholeRows {
		w.lost += wideLoss
	}
	return plan{
		Label:   fmt.Sprintf("staged %d lanes %d elements %d rows", t.lanes, t.elements, each),
		Tiling:  kernels.Tiling{Tile: [3]int{each, p.columns, 0}, Waves: w.waves(a), Split: 1},
		Seconds: w.seconds(a, p),
		Bind: func(at Addresses) []planning.Call {
			c := p.call(a, kernel, w.blocks, stagedThreads, each, at)
			c.Shared = shared
			return []planning.Call{c}
		},
	}, true
}

// conflicts is how many words of one bank of shared memory the lanes of a warp want at a time, at most.
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
