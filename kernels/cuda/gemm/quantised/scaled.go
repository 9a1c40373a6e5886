package quantised

import (
	"fmt"
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

// scaledChoice is a launch of hopper_scaled.cu. A cluster's blocks share tokens.
type scaledChoice struct {
	scaledTile
	scaledWalk
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
				t, newScaledWalk(p, size, planning.DivideUp(p.N, t.rows*size), planning.DivideUp(p.M, t.tokens)),
			}
			c.stages = scaledStages(c.shared)
			for _, c.scaledWalk = range c.splits(a) {
				all = append(all, c)
			}
		}
	}
	return all
}

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
	plan := c.scaledWalk.plan(a, p, c.label(), [2]int{c.tokens, c.rows}, c.seconds(a, p.Task), c.call)
	plan.Tiling.Orientation = kernels.OrientationTransposed
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
	c.rest(&k, p, at, p.N, p.M, false, c.tokens)
	return k
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
	return c.scaledWalk.seconds(a, p, step, scaledEnd, c.tokens*c.rows)
}
