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

// Name is the name by which the kernel is selected.
func (Family) Name() string { return "hopper" }

// Describe is one line for people.
func (Family) Describe(planning.Arch) string {
	return fmt.Sprintf("TMA and wgmma, producer and consumer warpgroups, persistent grid, clusters, stream-K; %d tiles of fp16 and others for small M",
		len(hopperTiles(kernels.FP16)))
}

// Supports returns why p can't run on a, empty when it can.
func (Family) Supports(a planning.Arch, p gemm.Problem) string {
	switch {
	case p.DType == kernels.FP32:
		return "tensor cores don't multiply fp32; their format of it is tf32"
	case a.CC != 90:
		return fmt.Sprintf("TMA and wgmma in this form exist only on compute capability 9.0, this GPU has %d.%d", a.CC/10, a.CC%10)
	case p.LDA > planning.LargestExtent || p.LDC > planning.LargestExtent:
		return fmt.Sprintf("a leading dimension is beyond %d", planning.LargestExtent)
	}
	return planning.SizeReason(p.Problem, 96, 96)
}

// hopperTile is one shape that hopper.cu was built in.
type hopperTile struct {
	rows, cols int  // of wgmma
	transposed bool // the rows are columns of C, the columns rows
	turns      bool // each consumer has a tile of its own
	direct     bool // C leaves from registers
}

// The tiles by type: of 16 bits, of fp8, of tf32 and of integers.
var (
	hopperHalves = slices.Concat(lieAlong(true, hopperTilesBy16, hopperTilesTall, hopperTilesBetween, hopperTilesLarge), hopperTilesCoarse, hopperTilesCoarseBetween,
		inTurns(lieAlong(true, hopperTilesTurns)))
	hopperFP8      = slices.Concat(lieAlong(true, hopperTilesBy16, hopperTilesTall), hopperTilesCoarse, inTurns(lieAlong(true, hopperTilesTurns)))
	hopperWords    = lieAlong(false, hopperTilesBy16, hopperTilesWords)
	hopperIntegers = fromRegisters(slices.Concat(hopperWords, inTurns(lieAlong(false, hopperTilesTurns))))
)

// lieAlong are the tiles of lists, transposed or not, in order of their extents.
func lieAlong(transposed bool, lists ...[]hopperTile) []hopperTile {
	tiles := slices.Concat(lists...)
	for i := range tiles {
		tiles[i].transposed = transposed
	}
	slices.SortFunc(tiles, func(x, y hopperTile) int { return cmp.Or(x.rows-y.rows, x.cols-y.cols) })
	return tiles
}

// inTurns are tiles of which each consumer has one of its own.
func inTurns(tiles []hopperTile) []hopperTile {
	for i := range tiles {
		tiles[i].turns = true
	}
	return tiles
}

// fromRegisters are tiles whose C leaves without boxes.
func fromRegisters(tiles []hopperTile) []hopperTile {
	for i := range tiles {
		tiles[i].direct = true
	}
	return tiles
}

// hopperTiles are the tiles of a type. C of 16 bits can be stored transposed, by which
// columns, which come in every multiple of 8 or 16, lie along M, which can be anything.
func hopperTiles(d kernels.DType) []hopperTile {
	switch d {
	case kernels.FP16, kernels.BF16:
		return hopperHalves
	case kernels.FP8:
		return hopperFP8
	case kernels.INT8:
		return hopperIntegers
	}
	return hopperWords // integers have no wgmma of 56, 72 or 88 columns
}

// dividesColumns says that the consumers divide the tile's columns, since its rows, in 64s, are
// an odd number, or its columns more than wgmma has.
func (t hopperTile) dividesColumns() bool {
	return !t.turns && (t.rows%(64*hopperConsumers) != 0 || t.cols > 256)
}

// What hopper.cu fixes.
const (
	hopperStepBytes = 128 // of K
	hopperThreads   = 384
	hopperConsumers = 2
	hopperBoxRows   = 16 // of the boxes through which C leaves, two a warp

	hopperMostBoxRows = 256 // of an operand, by TMA
	hopperBoxes       = 2 * 4 * hopperConsumers * hopperBoxRows * hopperStepBytes
)

// boxes is the bytes through which C leaves.
func (t hopperTile) boxes() int {
	if t.direct {
		return 0
	}
	return hopperBoxes
}

// stages is how many fit beside the boxes of eight warps, up to six.
func (t hopperTile) stages() int {
	return min(6, (planning.Shared90-1024-128-t.boxes())/((t.rows+t.cols)*hopperStepBytes))
}

// shared is the ring, the boxes, two barriers a stage, and room to align it all.
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

// extent is how far wgmma's rows and columns go.
func (t hopperTile) extent(p kernels.Problem) (rows, cols int) {
	if t.transposed {
		return p.N, p.M
	}
	return p.M, p.N
}

// hopperPair says how the two blocks of a cluster lie.
type hopperPair int

const (
	single     hopperPair = iota
	stacked               // one below the other, of the same columns
	sideBySide            //, of the same rows
)

// hopperChoice is a tile and how the work is dealt out.
type hopperChoice struct {
	hopperTile
	pair               hopperPair
	rowTiles, colTiles int // of a cluster
	steps              int // of K
	clusters           int // in the grid
	split              int // tiles that are cut along K
}

func (c hopperChoice) size() int {
	if c.pair == single {
		return 1
	}
	return 2
}

// choose takes the least expected time under the power limit, and returns that at the clock under load. Of most choices it
// takes no more than their bound to see that they are slower than the one whose bound is the lowest.
func (f Family) choose(a planning.Arch, p kernels.Problem) (best hopperChoice, seconds float64) {
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

// tilePaces are the paces of the tiles of a type, in their order.
func tilePaces(a planning.Arch, d kernels.DType) []tilePace {
	m := wideModels.For(a.CC, a.SMs, a.Bandwidth)
	tiles := hopperTiles(d)
	paces := make([]tilePace, len(tiles))
	for i, t := range tiles {
		paces[i] = t.pace(a, m, d)
	}
	return paces
}

// each yields every tile, single and in pairs, whole and with the last rounds cut, with its pace.
func (Family) each(a planning.Arch, p kernels.Problem, paces []tilePace, yield func(c hopperChoice, t tilePace)) {
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
				yield(c, paces[i])
			}
		}
	}
}

// hopperLeast is how many steps a cluster must at least get of the tiles that are cut.
const hopperLeast = 8

// splits are the numbers of tiles that are worth cutting: none, those of the last,
// incomplete round, and those of the last two.
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

// label is "128x256 stages 4 cluster 2x1 split 60 of 120": rows and columns of C, ring, how the
// blocks of a cluster lie in C, and how many of the tiles are cut along K. "turns" follows the
// tile where each consumer has one of its own.
func (c hopperChoice) label() string {
	stages := c.stages()
	m, n, down := c.rows, c.cols, c.pair == stacked
	s, turns := "%dx%d%s stages %d", ""
	if c.transposed {
		m, n, down = n, m, c.pair == sideBySide
		s = "%dx%dt%s stages %d"
	}
	if c.turns {
		turns = " turns"
	}
	s = fmt.Sprintf(s, m, n, turns, stages)
	switch {
	case c.pair == single:
	case down:
		s += " cluster 2x1"
	default:
		s += " cluster 1x2"
	}
	if c.split > 0 {
		s += fmt.Sprintf(" split %d of %d", c.split, c.rowTiles*c.colTiles)
	}
	return s
}

// tiling is what the label says, in numbers; clusters walk over the tiles.
func (c hopperChoice) tiling(a planning.Arch, d kernels.DType) kernels.Tiling {
	t := kernels.Tiling{
		Tile:  [3]int{c.rows, c.cols, hopperStepBytes / d.Size()},
		Waves: float64(c.rowTiles*c.colTiles) / float64(a.SMs/c.size()), Split: 1,
	}
	if c.transposed {
		t.Tile[0], t.Tile[1], t.Orientation = c.cols, c.rows, kernels.OrientationTransposed
	}
	if c.split > 0 {
		t.Split = 2 // a tile has as many parts as clusters meet in it
	}
	return t
}

// What the ring's consumers and the walk over the tiles are told.
const (
	hopperGroup, hopperGroupOnce = 8, 4 // rows of tiles that are walked together
	hopperLead                   = 2    // steps by which the first consumer is ahead, or before its last at which one yields
)

// Plan decides how p, which is supported, runs on a.
func (f Family) Plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	c, seconds := f.choose(a, p.Problem)
	return planning.Fastest(append([]gemm.Plan{c.plan(a, p, seconds)}, smallMPlans(a, p)...))
}

// Candidates are the plans among which plan chooses.
func (f Family) Candidates(a planning.Arch, p gemm.Problem) []gemm.Plan {
	var plans []gemm.Plan
	f.each(a, p.Problem, tilePaces(a, p.DType), func(c hopperChoice, t tilePace) { plans = append(plans, c.plan(a, p, c.seconds(a, p.Problem, t.step))) })
	return append(plans, smallMPlans(a, p)...)
}

func (c hopperChoice) plan(a planning.Arch, p gemm.Problem, seconds float64) gemm.Plan {
	// TMA takes rows that are 16 bytes aligned: A with others is copied first.
	rows := gemm.Realign(p.Problem, p.Aligned.A < 16)
	seconds += rows.Seconds(a)
	// TMA writes whole groups of 16 bytes: rows of C that end inside of one would spill.
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
		return append(calls, c.call(p.Problem, at, lda, storable))
	}
	return plan
}

// boxRows is how many of an operand's rows TMA fetches at a time.
func boxRows(rows int) int {
	if rows > hopperMostBoxRows {
		return rows / 2
	}
	return rows
}

// call launches hopper.cu. tma says whether it may store C.
func (c hopperChoice) call(p kernels.Problem, at gemm.Addresses, lda int, tma bool) planning.Call {
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
	// Of what both blocks of a cluster need, each fetches half. What is too much for a box comes in two.
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
		k.Args.Align(64)
		k.Args.Bytes = append(k.Args.Bytes, make([]byte, planning.TensorMapBytes)...)
	}
	// With one piece of work to a block there is no other tile behind which to hide C, and
	// what neighbours share counts for more than what a whole round does.
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
	k.Args.Int32(rows, cols, c.steps, c.rowTiles, c.colTiles, min(group, c.rowTiles), c.split, cut/c.clusters, cut%c.clusters, stackedBlocks, lead, aligned)
	k.Args.Align(64)
	return k
}
