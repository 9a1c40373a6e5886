// Package hopper plans products by TMA and wgmma, on compute capability 9.0.
package hopper

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Family is hopper.cu for many rows of A and hopper_narrow.cu for small M: TMA and wgmma, on
// compute capability 9.0 only.
type Family struct{}

// Name implements [planning.Family].
func (Family) Name() string { return "hopper" }

// Describe implements [planning.Family].
func (Family) Describe(planning.Arch) string {
	return fmt.Sprintf("TMA and wgmma, producer and consumer warpgroups, persistent grid, clusters, stream-K; %d tiles of fp16 and "+
		"others for small M",
		len(hopperTiles(kernels.FP16)))
}

// Supports implements [planning.Family].
func (Family) Supports(a planning.Arch, p gemm.Problem) string {
	switch {
	case p.DType == kernels.FP32:
		return "tensor cores don't multiply fp32; their format of it is tf32"
	case a.CC != 90:
		return fmt.Sprintf("TMA and wgmma in this form exist only on compute capability 9.0, this GPU has %d.%d", a.CC/10, a.CC%10)
	case p.LDA > planning.LargestExtent || p.LDC > planning.LargestExtent:
		return fmt.Sprintf("a leading dimension is beyond %d", planning.LargestExtent)
	}
	return planning.SizeReason(p.Task, 96, 96)
}

type hopperTile struct {
	rows, cols int  // of wgmma
	transposed bool // wgmma's rows are columns of C
	turns      bool // each consumer has its own tile
	direct     bool // C is stored from registers
}

// The tiles by type: 16 bits, fp8, tf32 and integers.
var (
	hopperHalves = slices.Concat(lieAlong(true, hopperTilesBy16, hopperTilesTall, hopperTilesBetween, hopperTilesLarge), hopperTilesCoarse,
		hopperTilesCoarseBetween,
		inTurns(lieAlong(true, hopperTilesTurns, hopperTilesTurnsBetween)))
	hopperFP8 = slices.Concat(lieAlong(true, hopperTilesBy16, hopperTilesTall), hopperTilesCoarse,
		inTurns(lieAlong(true, hopperTilesTurns)))
	hopperWords    = lieAlong(false, hopperTilesBy16, hopperTilesWords)
	hopperIntegers = fromRegisters(slices.Concat(hopperWords, inTurns(lieAlong(false, hopperTilesTurns))))
)

func lieAlong(transposed bool, lists ...[]hopperTile) []hopperTile {
	tiles := slices.Concat(lists...)
	for i := range tiles {
		tiles[i].transposed = transposed
	}
	slices.SortFunc(tiles, func(x, y hopperTile) int { return cmp.Or(x.rows-y.rows, x.cols-y.cols) })
	return tiles
}

func inTurns(tiles []hopperTile) []hopperTile {
	for i := range tiles {
		tiles[i].turns = true
	}
	return tiles
}

func fromRegisters(tiles []hopperTile) []hopperTile {
	for i := range tiles {
		tiles[i].direct = true
	}
	return tiles
}

// hopperTiles returns the tiles of a type. C of 16 bits can be stored transposed. Columns, which have a
// granularity of 8 or 16, then lie along M, which can have any size.
func hopperTiles(d kernels.DType) []hopperTile {
	switch d {
	case kernels.FP16, kernels.BF16:
		return hopperHalves
	case kernels.FP8:
		return hopperFP8
	case kernels.INT8:
		return hopperIntegers
	}
	return hopperWords // integer wgmma has no 56, 72 or 88 columns
}

// dividesColumns reports whether consumers split the tile's columns: if its rows are an odd multiple of 64,
// or its columns exceed wgmma's maximum.
func (t hopperTile) dividesColumns() bool {
	return !t.turns && (t.rows%(64*hopperConsumers) != 0 || t.cols > 256)
}

// Constants of hopper.cu.
const (
	hopperStepBytes = 128 // of K
	hopperThreads   = 384
	hopperConsumers = 2
	hopperBoxRows   = 16 // of C's store boxes, two a warp

	hopperMostBoxRows = 256 // maximum rows of a TMA operand box

	hopperBoxes = 2 * 4 * hopperConsumers * hopperBoxRows * hopperStepBytes
)

func (t hopperTile) boxes() int {
	if t.direct {
		return 0
	}
	return hopperBoxes
}

// stages returns how many stages fit next to the boxes of eight warps, up to six.
func (t hopperTile) stages() int {
	return min(6, (planning.Shared90-1024-128-t.boxes())/((t.rows+t.cols)*hopperStepBytes))
}

// shared returns the bytes of the ring, boxes, two barriers per stage, and alignment padding.
func (t hopperTile) shared() int {
	return t.stages()*((t.rows+t.cols)*hopperStepBytes+16) + t.boxes() + 1024
}

func (t hopperTile) kernel(d kernels.DType) string {
	s := fmt.Sprintf("ga_hopper_%s_%dx%d", d, t.rows, t.cols)
	if t.transposed {
		s += "t"
	}
	if t.turns {
		s += "_turns"
	}
	return s
}

func (t hopperTile) extent(p kernels.Task) (rows, cols int) {
	if t.transposed {
		return p.N, p.M
	}
	return p.M, p.N
}

type hopperPair int

const (
	single     hopperPair = iota
	stacked               // adjacent rows, the same columns
	sideBySide            //, of the same rows
)

type hopperChoice struct {
	hopperTile
	pair               hopperPair
	rowTiles, colTiles int // of a cluster
	steps              int // of K
	clusters           int // in the grid
	split              int // tiles that are split along K
}

func (c hopperChoice) size() int {
	if c.pair == single {
		return 1
	}
	return 2
}

// choose returns the choice with the least expected time under the power limit, and its time at the clock
// under load. A lower bound rejects most choices early.
func (f Family) choose(a planning.Arch, p kernels.Task) (best hopperChoice, seconds float64) {
	var first hopperChoice
	var fastest tilePace
	lowest, paces := math.Inf(1), tilePaces(a, p.DType)
	f.each(a, p, paces, func(c hopperChoice, t tilePace) {
		if this := c.least(a, t.step) * c.drawn(t); this < lowest {
			first, fastest, lowest = c, t, this
		}
	})
	enough, least := first.seconds(a, p, fastest.step)*first.drawn(fastest), math.Inf(1)
	f.each(a, p, paces, func(c hopperChoice, t tilePace) {
		drawn := c.drawn(t)
		if c.least(a, t.step)*drawn > min(enough, least) {
			return
		}
		if this := c.seconds(a, p, t.step); this*drawn < least {
			best, seconds, least = c, this, this*drawn
		}
	})
	return best, seconds
}

func tilePaces(a planning.Arch, d kernels.DType) []tilePace {
	m := wideModels.For(a.CC, a.SMs, a.Bandwidth)
	tiles := hopperTiles(d)
	paces := make([]tilePace, len(tiles))
	for i, t := range tiles {
		paces[i] = t.pace(a, m, d)
	}
	return paces
}

// each yields every tile with its pace: single and in pairs, whole and with the last rounds split.
func (Family) each(a planning.Arch, p kernels.Task, paces []tilePace, yield func(c hopperChoice, t tilePace)) {
	for i, t := range hopperTiles(p.DType) {
		for _, pair := range []hopperPair{single, stacked, sideBySide} {
			c := hopperChoice{hopperTile: t, pair: pair, steps: planning.DivideUp(p.K*p.DType.Size(), hopperStepBytes)}
			if pair != single && a.SMs < 2 || pair == stacked && t.cols%16 != 0 {
				continue // halves of an operand are whole groups of eight rows
			}
			high, wide := t.rows, t.cols
			switch pair {
			case stacked:
				high *= 2
			case sideBySide:
				wide *= 2
			}
			rows, cols := t.extent(p)
			c.rowTiles, c.colTiles = planning.DivideUp(rows, high), planning.DivideUp(cols, wide)
			splits, n := c.splits(a)
			for _, split := range splits[:n] {
				c.clusters, c.split = a.SMs/c.size(), split
				if split == 0 {
					c.clusters = min(c.clusters, c.rowTiles*c.colTiles)
				}
				yield(c, c.crowded(a, paces[i]))
			}
		}
	}
}

// hopperLeast is the minimum steps per cluster of split tiles.
const hopperLeast = 8

// splits returns the useful numbers of split tiles: zero, the last, incomplete round, and the last two
// rounds.
func (c hopperChoice) splits(a planning.Arch) (splits [3]int, count int) {
	tiles, clusters := c.rowTiles*c.colTiles, a.SMs/c.size()
	rest := tiles % clusters
	count = 1 // none
	if rest == 0 {
		return splits, count
	}
	for _, n := range [2]int{rest, rest + clusters} {
		work := float64(n) * float64(c.steps)
		if n <= tiles && work >= float64(hopperLeast*clusters) && work*float64(clusters) < math.MaxInt32 {
			splits[count] = n
			count++
		}
	}
	return splits, count
}

// Parameters of the ring's consumers and the tile walk.
const (
	hopperGroup, hopperGroupOnce = 8, 4 // rows of tiles that are walked together
	hopperLead                   = 2    // steps of the first consumer's lead, and before its last step at which a consumer yields
)

// Plan implements [planning.Family].
func (f Family) Plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	c, seconds := f.choose(a, p.Task)
	return planning.Fastest(append([]gemm.Plan{c.plan(a, p, seconds)}, smallMPlans(a, p)...))
}

// Candidates implements [planning.Chooser].
func (f Family) Candidates(a planning.Arch, p gemm.Problem) []gemm.Plan {
	var plans []gemm.Plan
	f.each(a, p.Task, tilePaces(a, p.DType),
		func(c hopperChoice, t tilePace) { plans = append(plans, c.plan(a, p, c.seconds(a, p.Task, t.step))) })
	return append(plans, smallMPlans(a, p)...)
}

func (c hopperChoice) plan(a planning.Arch, p gemm.Problem, seconds float64) gemm.Plan {
	// TMA needs rows aligned to 16 bytes; other A is copied first.
	rows := gemm.Realign(p.Task, p.Aligned.A < 16)
	seconds += rows.Seconds(a)
	// TMA writes groups of 16 bytes; it would write past rows of C that end inside one.
	out := p.DType.Output().Size()
	storable := p.Aligned.C >= 16 && p.LDC*out%16 == 0 && p.N*out%16 == 0
	if !storable && !c.direct {
		seconds += float64(p.M) * float64(p.N*out) / wideModels.For(a.CC, a.SMs, a.Bandwidth).Elements
	}
	plan := gemm.Plan{
		Label: c.label(), Tiling: c.tiling(a, p.DType), Stages: c.stages(), Slots: a.SMs / c.size() * c.size(),
		Seconds: seconds, Scratch: rows.Copied,
	}
	blocks := c.clusters * c.size()
	if c.split > 0 {
		plan.Scratch += int64(blocks) * int64(c.rows*c.cols) * 4
		plan.Flags = int64(blocks) * hopperConsumers * 4
	}
	plan.Bind = func(at gemm.Addresses) []planning.Call {
		calls, lda := rows.Calls(a, &at)
		return append(calls, c.call(p.Task, at, lda, storable))
	}
	return plan
}

func boxRows(rows int) int {
	if rows > hopperMostBoxRows {
		return rows / 2
	}
	return rows
}

// call launches hopper.cu; tma allows it to store C by TMA.
func (c hopperChoice) call(p kernels.Task, at gemm.Addresses, lda int, tma bool) planning.Call {
	k := planning.Call{
		Kernel: c.kernel(p.DType), Shared: c.shared(), Overlap: true,
		Grid: planning.Dim3{X: c.clusters * c.size()}, Block: planning.Dim3{X: hopperThreads},
	}
	if c.pair != single {
		k.Cluster = planning.Dim3{X: 2}
	}
	depth := hopperStepBytes / p.DType.Size()
	onRows := planning.TensorMap{DType: p.DType, Address: at.A, Rows: p.M, Cols: p.K, LD: lda, BoxCols: depth, Swizzle: 128}
	onCols := planning.TensorMap{DType: p.DType, Address: at.B, Rows: p.N, Cols: p.K, LD: at.LDB, BoxCols: depth, Swizzle: 128}
	if c.transposed {
		onRows, onCols = onCols, onRows
	}
	// Each block of a cluster fetches half of a common operand. Operands larger than a box take two.
	onRows.BoxRows, onCols.BoxRows = boxRows(c.rows), boxRows(c.cols)
	stackedBlocks := 0
	switch c.pair {
	case stacked:
		onCols.BoxRows = c.cols / 2
		stackedBlocks = 1
	case sideBySide:
		onRows.BoxRows = c.rows / 2
	}
	k.Args.TensorMap(onRows).TensorMap(onCols)
	aligned := 0
	if out := p.DType.Output(); tma {
		k.Args.TensorMap(planning.TensorMap{
			DType: out, Address: at.C, Rows: p.M, Cols: p.N, LD: p.LDC,
			BoxRows: hopperBoxRows, BoxCols: hopperStepBytes / out.Size(), Swizzle: 128,
		})
		aligned = 1
	} else {
		k.Args.NoTensorMap()
	}
	// With one piece of work per block, no other tile hides the store of C, and sharing among neighbors
	// matters more than sharing in a round.
	lead, group := hopperLead, hopperGroup
	if c.split == 0 && c.rowTiles*c.colTiles <= c.clusters {
		group = hopperGroupOnce
		if !c.turns {
			lead = 0
		}
	}
	rows, cols := c.extent(p)
	k.Args.Pointer(at.C).Int64(int64(p.LDC)).Pointer(at.Scratch).Pointer(at.Flags)
	cut := c.split * c.steps
	k.Args.Int32(rows, cols, c.steps, c.rowTiles, c.colTiles, min(group, c.rowTiles), c.split, cut/c.clusters, cut%c.clusters,
		stackedBlocks, lead, aligned)
	k.Args.Align(64)
	k.Args.Int32(lastStart(rows, c.rows, !c.apart()), lastStart(cols, c.cols, !c.apart()))
	k.Args.Align(64)
	return k
}
