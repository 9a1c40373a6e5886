package quantised

import (
	"fmt"
	"math"

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
		"stream-K, %d tiles", scaledGroup, len(scaledTokens))
}

// Constants of hopper_scaled.cu.
const (
	scaledGroup      = 128 // of K: a step, and the group of a scale
	scaledRows       = 128 // of weights in a tile
	scaledThreads    = 384
	scaledMostStages = 12
	scaledBoxes      = 32 << 10
	scaledBarriers   = 1024
	scaledBoxRows    = 16 // of C's store boxes
	scaledLeast      = 4  // steps of a split tile's part, at least
	scaledTogether   = 8  // rows of tiles that are walked together
)

var scaledTokens = []int{16, 32, 48, 64, 96, 128, 160, 192}

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
	case f.GroupK == scaledGroup && f.GroupN != 1 && f.GroupN != scaledRows, f.GroupK != scaledGroup && f.GroupN != 1:
		return fmt.Sprintf("scales of %d columns, expected 1 or %d", f.GroupN, scaledRows)
	case p.K%16 != 0:
		return fmt.Sprintf("k is %d, expected a multiple of 16: TMA reads rows of weights where they lie", p.K)
	case f.GroupK == scaledGroup && p.LDScales*4%16 != 0:
		return fmt.Sprintf("groups of scales of activations are %d apart, expected a multiple of 4: TMA reads them", p.LDScales)
	}
	return planning.SizeReason(p.Task, scaledTokens[0], scaledRows)
}

type scaledChoice struct {
	tokens, stages     int
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
	return 1024 + scaledBoxes + scaledBarriers + stages*((scaledRows+c.tokens)*128+c.scaleBytes())
}

func (c scaledChoice) tiles() int { return c.rowTiles * c.colTiles }

func scaledChoices(a planning.Arch, p kernels.Task) (all []scaledChoice) {
	for i, tokens := range scaledTokens {
		if i > 0 && scaledTokens[i-1] >= p.M {
			break // a narrower tile has room for all rows
		}
		for _, size := range []int{1, 2} {
			if size > 1 && (a.SMs < size || p.N <= scaledRows) {
				continue
			}
			c := scaledChoice{
				tokens: tokens, size: size, steps: planning.DivideUp(p.K, scaledGroup), grouped: p.Weights.GroupK == scaledGroup,
				rowTiles: planning.DivideUp(p.N, scaledRows*size), colTiles: planning.DivideUp(p.M, tokens),
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
	rest := c.tiles() % clusters
	c.blocks = min(c.tiles(), clusters) * c.size
	all = append(all, c)
	for _, split := range []int{rest, rest + clusters} {
		work := int64(split) * int64(c.steps)
		if rest == 0 || split > c.tiles() || work < int64(scaledLeast*clusters) || work*int64(clusters) > math.MaxInt32 {
			continue
		}
		c.split, c.blocks = split, clusters*c.size
		all = append(all, c)
	}
	return all
}

func (c scaledChoice) clusters() int { return c.blocks / c.size }

func (c scaledChoice) label() string {
	s := fmt.Sprintf("%dx%dt stages %d", c.tokens, scaledRows, c.stages)
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
	return plans
}

func (c scaledChoice) plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	rows := gemm.Realign(p.Task, p.Aligned.A < 16)
	out := p.DType.Output().Size()
	storable := p.Aligned.C >= 16 && p.LDC*out%16 == 0 && p.N*out%16 == 0
	plan := gemm.Plan{
		Label: c.label(), Stages: c.stages, Slots: a.SMs, Scratch: rows.Copied, Seconds: c.seconds(a, p.Task) + rows.Seconds(a),
		Tiling: kernels.Tiling{
			Tile: [3]int{c.tokens, scaledRows, scaledGroup}, Waves: float64(c.tiles()*c.size) / float64(a.SMs), Split: 1,
			Orientation: kernels.OrientationTransposed,
		},
	}
	if c.split > 0 {
		plan.Tiling.Split = 2
		plan.Scratch += int64(c.blocks) * int64(scaledRows*c.tokens) * 4
		plan.Flags = int64(c.blocks) * 2 * 4
	}
	plan.Bind = func(at gemm.Addresses) []planning.Call {
		calls, lda := rows.Calls(a, &at)
		return append(calls, c.call(p.Task, at, lda, storable))
	}
	return plan
}

func (c scaledChoice) call(p kernels.Task, at gemm.Addresses, lda int, tma bool) planning.Call {
	by := "column"
	switch {
	case c.grouped && p.Weights.GroupN == scaledRows:
		by = "block"
	case c.grouped:
		by = "group"
	}
	k := planning.Call{
		Kernel: fmt.Sprintf("ga_hopper_scaled_%s_%d", by, c.tokens), Shared: c.shared(c.stages), Overlap: true,
		Grid: planning.Dim3{X: c.blocks}, Block: planning.Dim3{X: scaledThreads},
	}
	if c.size > 1 {
		k.Cluster = planning.Dim3{X: c.size}
	}
	k.Args.TensorMap(planning.TensorMap{
		DType: p.DType, Address: at.B, Rows: p.N, Cols: p.K, LD: p.K, BoxRows: scaledRows, BoxCols: scaledGroup, Swizzle: 128,
	}).TensorMap(planning.TensorMap{
		DType: p.DType, Address: at.A, Rows: p.M, Cols: p.K, LD: lda, BoxRows: c.tokens / c.size, BoxCols: scaledGroup, Swizzle: 128,
	})
	out := p.DType.Output()
	if tma {
		k.Args.TensorMap(planning.TensorMap{
			DType: out, Address: at.C, Rows: p.M, Cols: p.N, LD: p.LDC,
			BoxRows: scaledBoxRows, BoxCols: 128 / out.Size(), Swizzle: 128,
		})
	} else {
		k.Args.NoTensorMap()
	}
	k.Args.Pointer(at.C).Int64(int64(p.LDC)).Pointer(at.Scratch).Pointer(at.Flags)
	cut := c.split * c.steps
	k.Args.Int32(p.N, p.M, c.steps, c.rowTiles, c.colTiles, min(scaledTogether, c.rowTiles), c.split, cut/c.clusters(), cut%c.clusters(),
		0, 0, planning.OneIf(tma))
	scales, _ := p.ActivationScales()
	if c.grouped {
		k.Args.TensorMap(planning.TensorMap{
			DType: kernels.FP32, Address: at.ScalesA, Rows: scales.Groups, Cols: p.M, LD: scales.LD, BoxRows: 1, BoxCols: c.tokens,
		})
	} else {
		k.Args.NoTensorMap()
	}
	k.Args.Pointer(at.ScalesA).Pointer(at.ScalesB).Int32(scales.Groups, c.stages)
	k.Args.Align(64)
	return k
}

// What hopper_scaled.cu reaches, measured on an H200: the fraction of bandwidth, the p of the norm of memory and cores, cycles of a
// step beside its products and for each token of a tile, with scales of groups and without; bytes that all multiprocessors take
// from L2 in a second; cycles of a tile's end; the memory time that multiprocessors without
// a tile add, as a part; the cost of a launch, of a cluster, of split tiles, and of each part of a tile of 128 tokens.
const (
	scaledMemory = 0.95
	scaledBoth   = 4
	scaledStep   = 160
	scaledFold   = 2.6
	scaledAdd    = 0.8
	scaledFromL2 = 12e12
	scaledEnd    = 1500
	scaledClock  = 0.85
	scaledPair   = 1.6e-6
	scaledIdle   = 0.6
	scaledStart  = 1.5e-6
	scaledCut    = 3.5e-6
	scaledTake   = 0.6e-6
)

// seconds is the expected time of a launch.
func (c scaledChoice) seconds(a planning.Arch, p kernels.Task) float64 {
	clock := a.LoadClock(scaledClock)
	fetched := float64((scaledRows + c.tokens/c.size) * 128)
	fold := scaledAdd
	if c.grouped {
		fold = scaledFold
	}
	step := planning.Norm(scaledBoth, float64(scaledRows*c.tokens)/32/clock, fetched*float64(c.blocks)/scaledFromL2)
	step += (scaledStep + fold*float64(c.tokens)) / clock
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
		t += scaledCut + scaledTake*parts*float64(c.tokens)/128
	}
	return t
}
