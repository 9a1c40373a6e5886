package quantised

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Scaled is hopper_scaled.cu: fp8 with scales for activations and weights, by TMA and wgmma on compute capability 9.0. Sums move
// to fp32 registers after every 128 of K.
type Scaled struct{}

// ScaledFamilies are our kernels for fp8 with scales.
func ScaledFamilies() []gemm.Family { return []gemm.Family{Scaled{}} }

// Name implements [planning.Family].
func (Scaled) Name() string { return "fp8-scaled" }

// Describe implements [planning.Family].
func (Scaled) Describe(planning.Arch) string {
	return fmt.Sprintf("fp8 with scales of blocks, of groups or of columns; TMA and wgmma, sums in fp32 every %d of K; persistent grid, "+
		"stream-K, %d tiles", scaledGroup, len(scaledTiles)+len(wideTiles))
}

// Constants of hopper_scaled.cu.
const (
	scaledGroup      = 128 // of K: a step, and the group of a scale
	scaledBlock      = 128 // columns that share a scale
	scaledThreads    = 384
	scaledMostStages = 20
	scaledBoxes      = 32 << 10
	scaledBarriers   = 1024
	scaledBoxRows    = 16 // of C's store boxes
	scaledLeast      = 4  // steps of a split tile's part, at least
	scaledTogether   = 8  // rows of tiles that are walked together
)

// scaledTile is a tile of hopper_scaled.cu: tokens, and rows of weights, of which 64 are for few tokens.
type scaledTile struct{ tokens, rows int }

// The tiles of all scales, and those of scales of single columns in groups, which hopper_scaled_wide.cu does not take.
var (
	scaledTiles = []scaledTile{{16, 64}, {32, 64}, {48, 64}, {64, 64}, {16, 128}, {32, 128}, {48, 128}, {64, 128}, {96, 128}, {128, 128}}
	scaledMore  = []scaledTile{{160, 128}, {192, 128}}
)

// Supports implements [planning.Family].
func (Scaled) Supports(a planning.Arch, p gemm.Problem) string {
	f := p.Weights
	switch {
	case !p.Scaled():
		return "its weights are fp8 with scales, as --weights fp8:128x128 makes them"
	case a.CC != 90:
		return fmt.Sprintf("TMA and wgmma in this form exist only on compute capability 9.0, this GPU has %d.%d", a.CC/10, a.CC%10)
	case f.GroupK != scaledGroup && f.GroupK != p.K:
		return fmt.Sprintf("scales of %d along K, expected %d or columns", f.GroupK, scaledGroup)
	case f.GroupK == scaledGroup && f.GroupN != 1 && f.GroupN != scaledBlock, f.GroupK != scaledGroup && f.GroupN != 1:
		return fmt.Sprintf("scales of %d columns, expected 1 or %d", f.GroupN, scaledBlock)
	case p.K%16 != 0:
		return fmt.Sprintf("k is %d, expected a multiple of 16: TMA reads rows of weights where they lie", p.K)
	case f.GroupK == scaledGroup && p.LDScales*4%16 != 0:
		return fmt.Sprintf("groups of scales of activations are %d apart, expected a multiple of 4: TMA reads them", p.LDScales)
	}
	return planning.SizeReason(p.Task, scaledTiles[0].tokens, scaledTiles[0].rows)
}

type scaledChoice struct {
	scaledTile
	stages             int
	size               int // blocks of a cluster, which share tokens
	rowTiles, colTiles int // of a cluster
	steps, blocks      int
	split              int // tiles that are split along K
	grouped            bool
}

// scaleBytes is a stage's part of the scales of activations.
func (c scaledChoice) scaleBytes() int {
	if !c.grouped {
		return 0
	}
	return planning.DivideUp(4*c.tokens, 128) * 128
}

func (c scaledChoice) shared(stages int) int {
	return 1024 + scaledBoxes + scaledBarriers + stages*((c.rows+c.tokens)*128+c.scaleBytes())
}

func (c scaledChoice) tiles() int { return c.rowTiles * c.colTiles }

func scaledChoices(a planning.Arch, p kernels.Task) (all []scaledChoice) {
	tiles := scaledTiles
	if p.Weights.GroupK == scaledGroup && p.Weights.GroupN == 1 {
		tiles = slices.Concat(tiles, scaledMore)
	}
	for i, t := range tiles {
		if i > 0 && t.rows == tiles[i-1].rows && tiles[i-1].tokens >= p.M {
			continue // a narrower tile has room for all rows
		}
		for _, size := range []int{1, 2} {
			if size > 1 && (a.SMs < size || p.N <= t.rows) {
				continue
			}
			c := scaledChoice{
				scaledTile: t, size: size, steps: planning.DivideUp(p.K, scaledGroup), grouped: p.Weights.GroupK == scaledGroup,
				rowTiles: planning.DivideUp(p.N, t.rows*size), colTiles: planning.DivideUp(p.M, t.tokens),
			}
			c.stages = min(scaledMostStages, (planning.Shared90-c.shared(0))/(c.shared(1)-c.shared(0)))
			all = append(all, c.splits(a)...)
		}
	}
	return all
}

// splits returns the choice without split tiles, and with those of the last rounds.
func (c scaledChoice) splits(a planning.Arch) (all []scaledChoice) {
	clusters := a.SMs / c.size
	for _, c.split = range scaledSplits(c.tiles(), clusters, c.steps) {
		c.blocks = clusters * c.size
		if c.split == 0 {
			c.blocks = min(c.tiles(), clusters) * c.size
		}
		all = append(all, c)
	}
	return all
}

// scaledSplits returns how many tiles may be split along K: none, and those of the last rounds.
func scaledSplits(tiles, clusters, steps int) []int {
	all, rest := []int{0}, tiles%clusters
	for _, split := range []int{rest, rest + clusters} {
		work := int64(split) * int64(steps)
		if rest > 0 && split <= tiles && work >= int64(scaledLeast*clusters) && work*int64(clusters) <= math.MaxInt32 {
			all = append(all, split)
		}
	}
	return all
}

func (c scaledChoice) clusters() int { return c.blocks / c.size }

func (c scaledChoice) label() string {
	s := fmt.Sprintf("%dx%dt stages %d", c.tokens, c.rows, c.stages)
	if c.size > 1 {
		s += " cluster 1x2"
	}
	if c.split > 0 {
		s += fmt.Sprintf(" split %d of %d", c.split, c.tiles())
	}
	return s
}

// Plan implements [planning.Family].
func (f Scaled) Plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	return planning.Fastest(f.Candidates(a, p))
}

// Candidates implements [planning.Chooser].
func (Scaled) Candidates(a planning.Arch, p gemm.Problem) []gemm.Plan {
	var plans []gemm.Plan
	for _, c := range scaledChoices(a, p.Task) {
		plans = append(plans, c.plan(a, p))
	}
	for _, c := range wideChoices(a, p.Task) {
		plans = append(plans, c.plan(a, p))
	}
	return plans
}

func (c scaledChoice) plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	rows := gemm.Realign(p.Task, p.Aligned.A < 16)
	plan := gemm.Plan{
		Label: c.label(), Stages: c.stages, Slots: a.SMs, Scratch: rows.Copied, Seconds: c.seconds(a, p.Task) + rows.Seconds(a),
		Tiling: kernels.Tiling{
			Tile: [3]int{c.tokens, c.rows, scaledGroup}, Waves: float64(c.tiles()*c.size) / float64(a.SMs), Split: 1,
			Orientation: kernels.OrientationTransposed,
		},
	}
	if c.split > 0 {
		plan.Tiling.Split = 2
		plan.Scratch += int64(c.blocks) * int64(c.rows*c.tokens) * 4
		plan.Flags = int64(c.blocks) * 2 * 4
	}
	plan.Bind = func(at gemm.Addresses) []planning.Call {
		calls, lda := rows.Calls(a, &at)
		return append(calls, c.call(p, at, lda))
	}
	return plan
}

func (c scaledChoice) call(p gemm.Problem, at gemm.Addresses, lda int) planning.Call {
	by := "column"
	switch {
	case c.grouped && p.Weights.GroupN == scaledBlock:
		by = "block"
	case c.grouped:
		by = "group"
	}
	k := planning.Call{
		Kernel: fmt.Sprintf("ga_hopper_scaled_%s_%dx%d", by, c.tokens, c.rows), Shared: c.shared(c.stages), Overlap: true,
		Grid: planning.Dim3{X: c.blocks}, Block: planning.Dim3{X: scaledThreads},
	}
	if c.size > 1 {
		k.Cluster = planning.Dim3{X: c.size}
	}
	k.Args.TensorMap(planning.TensorMap{
		DType: p.DType, Address: at.B, Rows: p.N, Cols: p.K, LD: p.K, BoxRows: c.rows, BoxCols: scaledGroup, Swizzle: 128,
	}).TensorMap(planning.TensorMap{
		DType: p.DType, Address: at.A, Rows: p.M, Cols: p.K, LD: lda, BoxRows: c.tokens / c.size, BoxCols: scaledGroup, Swizzle: 128,
	})
	cut := c.split * c.steps
	scaledRest(&k, p, at, []int{p.N, p.M, c.steps, c.rowTiles, c.colTiles, min(scaledTogether, c.rowTiles), c.split, cut / c.clusters(),
		cut % c.clusters(), 0, 0}, c.tokens, c.stages)
	return k
}

// scaledRest appends what follows the maps of the operands: C, the walk, and the scales, those of activations in boxes of a tile's
// tokens.
func scaledRest(k *planning.Call, p gemm.Problem, at gemm.Addresses, walk []int, tokens, stages int) {
	out := p.DType.Output()
	tma := p.Aligned.C >= 16 && p.LDC*out.Size()%16 == 0 && p.N*out.Size()%16 == 0
	if tma {
		k.Args.TensorMap(planning.TensorMap{
			DType: out, Address: at.C, Rows: p.M, Cols: p.N, LD: p.LDC,
			BoxRows: scaledBoxRows, BoxCols: 128 / out.Size(), Swizzle: 128,
		})
	} else {
		k.Args.NoTensorMap()
	}
	k.Args.Pointer(at.C).Int64(int64(p.LDC)).Pointer(at.Scratch).Pointer(at.Flags)
	k.Args.Int32(append(walk, planning.OneIf(tma))...)
	scales, _ := p.ActivationScales()
	if p.Weights.GroupK == scaledGroup {
		k.Args.TensorMap(planning.TensorMap{
			DType: kernels.FP32, Address: at.ScalesA, Rows: scales.Groups, Cols: p.M, LD: scales.LD, BoxRows: 1, BoxCols: tokens,
		})
	} else {
		k.Args.NoTensorMap()
	}
	k.Args.Pointer(at.ScalesA).Pointer(at.ScalesB).Int32(scales.Groups, stages)
	k.Args.Align(64)
}

// What hopper_scaled.cu reaches, measured on an H200: the fraction of bandwidth, the p of the norm of memory and cores, cycles of a
// step beside its products and for each token of a tile, with scales of groups and without, and the part of them that is left where
// consumers take turns; bytes that all multiprocessors take from L2 in a second; cycles of a tile's end; the memory time that
// multiprocessors without a tile add, as a part; the cost of a launch, of a cluster, of split tiles, and of each part of a tile of
// 128 × 128.
const (
	scaledMemory = 0.945
	scaledBoth   = 4
	scaledStep   = 187
	scaledFold   = 2.64
	scaledAdd    = 0.39
	scaledTurns  = 0.60
	scaledFromL2 = 19e12
	scaledEnd    = 1930
	scaledClock  = 0.87
	scaledPair   = 1.35e-6
	scaledIdle   = 0.27
	scaledStart  = 2.6e-6
	scaledCut    = 1.5e-6
	scaledTake   = 2.1e-6
)

// seconds is the expected time of a launch.
func (c scaledChoice) seconds(a planning.Arch, p kernels.Task) float64 {
	clock := a.LoadClock(scaledClock)
	fetched := float64((c.rows + c.tokens/c.size) * 128)
	fold := scaledAdd
	if c.grouped {
		fold = scaledFold
	}
	step := planning.Norm(scaledBoth, float64(c.rows*c.tokens)/32/clock, fetched*float64(c.blocks)/scaledFromL2)
	own := (scaledStep + fold*float64(c.tokens)) / clock
	if c.rows == 64 {
		own *= scaledTurns
	}
	step += own
	rounds := float64(planning.DivideUp(c.tiles()-c.split, c.clusters())) + float64(c.split)/float64(c.clusters())
	t := rounds*float64(c.steps)*step + math.Ceil(rounds)*scaledEnd/clock
	if a.Bandwidth > 0 {
		idle := 1 - min(1, float64(c.blocks)/float64(a.SMs))
		memory := p.Subject.Bytes(p.M) / (a.Bandwidth * scaledMemory) * (1 + scaledIdle*idle)
		t = planning.Norm(scaledBoth, t, memory)
	}
	t += scaledStart
	if c.size > 1 {
		t += scaledPair
	}
	if c.split > 0 {
		parts := max(1, float64(c.clusters())/float64(c.split))
		t += scaledCut + scaledTake*parts*float64(c.tokens*c.rows)/(128*128)
	}
	return t
}
