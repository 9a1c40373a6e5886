package hopper

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Grouped is hopper_grouped.cu: one persistent launch for the rows of all groups, on compute capability 9.0 only.
type Grouped struct{}

// Name implements [planning.Family].
func (Grouped) Name() string { return "hopper-grouped" }

// Describe implements [planning.Family].
func (Grouped) Describe(planning.Arch) string {
	return "one persistent launch for the rows of all groups: TMA and wgmma, tiles as wide as a group needs, stream-K"
}

// MostGroups is the room of the tables of hopper_grouped.cu.
const MostGroups = 512

// Constants of hopper_grouped.cu.
const (
	groupedRows       = 128 // of weights that a consumer multiplies
	groupedMostStages = 10
	groupedLine       = 1024 // bytes of the line of pieces and of barriers
	groupedLeast      = 8    // steps of K of a split tile's part, at least
)

// groupedTile is a built tile: its greatest width, and whether each consumer has its own.
type groupedTile struct {
	most  int
	turns bool
}

var groupedTiles = []groupedTile{{16, true}, {32, true}, {64, true}, {128, true}, {192, true}, {128, false}, {192, false}}

// rows returns the rows of weights.
func (t groupedTile) rows() int {
	if t.turns {
		return groupedRows
	}
	return groupedRows * hopperConsumers
}

// wide returns the tile of a group as one of products.
func (t groupedTile) wide(width int) hopperTile {
	return hopperTile{rows: t.rows(), cols: width, turns: t.turns, transposed: true}
}

// Supports implements [planning.Family].
func (Grouped) Supports(a planning.Arch, p gemm.Groups) string {
	switch {
	case p.DType != kernels.FP16 && p.DType != kernels.BF16 && p.DType != kernels.FP8:
		return fmt.Sprintf("its types are fp16, bf16 and fp8, not %s", p.DType)
	case a.CC != 90:
		return fmt.Sprintf("TMA and wgmma in this form exist only on compute capability 9.0, this GPU has %d.%d", a.CC/10, a.CC%10)
	case p.Groups > MostGroups:
		return fmt.Sprintf("%d groups, its tables have %d", p.Groups, MostGroups)
	case p.PackInside:
		return "its weights are packed before launches, never inside"
	case int64(p.Groups)*int64(p.N) > planning.LargestExtent:
		return fmt.Sprintf("the weights of all groups have more than %d rows", planning.LargestExtent)
	}
	return planning.SizeReason(p.Task, groupedRows, gemm.GroupWidth)
}

// groupedChoice is a launch: a tile, and rounds of tiles that are split along K.
type groupedChoice struct {
	groupedTile
	rounds   int
	steps    int // of K
	rowTiles int // in a group
	blocks   int
	stages   int
	streams  int // in which tiles are walked side by side
}

// streams returns in how many streams tiles are walked: in one if groups have the same size. Otherwise the number has no
// divisor in common with the blocks, so that each of them visits all streams.
func streams(sizes []int, blocks int) int {
	if len(sizes) == 0 || slices.Max(sizes)-slices.Min(sizes) <= gemm.GroupWidth {
		return 1
	}
	for _, n := range []int{5, 7, 11} {
		if blocks%n != 0 {
			return n
		}
	}
	return 1
}

func groupedTableBytes(groups int) int { return (3*groups + 1) * 4 }

func (t groupedTile) stageBytes() int { return (t.rows() + t.most) * hopperStepBytes }

func (t groupedTile) shared(stages, groups int) int {
	return hopperBoxes + groupedLine + stages*t.stageBytes() + groupedTableBytes(groups)
}

func (c groupedChoice) label() string {
	turns := ""
	if c.turns {
		turns = " turns"
	}
	s := fmt.Sprintf("%dx%dt%s stages %d", c.most, c.rows(), turns, c.stages)
	if c.rounds > 0 {
		s += fmt.Sprintf(" split %d", c.rounds)
	}
	return s
}

func groupedChoices(a planning.Arch, p kernels.Task, sizes []int) (all []groupedChoice) {
	largest := slices.Max(append(sizes, 1))
	room := 0 // the narrowest tile with room for every group
	for _, t := range groupedTiles {
		if t.turns && t.most >= largest {
			room = t.most
			break
		}
	}
	for _, t := range groupedTiles {
		if room > 0 && t.most > room {
			continue
		}
		c := groupedChoice{
			groupedTile: t, steps: planning.DivideUp(p.K*p.DType.Size(), hopperStepBytes), blocks: a.SMs,
			rowTiles: planning.DivideUp(p.N, t.rows()), streams: streams(sizes, a.SMs),
		}
		c.stages = min(groupedMostStages, (planning.Shared90-t.shared(0, p.Groups))/t.stageBytes())
		for c.rounds = range 3 {
			all = append(all, c)
		}
	}
	return all
}

// cut returns how many tiles are cut along K, as the kernel finds it.
func (c groupedChoice) cut(tiles int) int {
	rest := tiles % c.blocks
	if rest == 0 || c.rounds == 0 {
		return 0
	}
	cut := rest + (c.rounds-1)*c.blocks
	if cut > tiles {
		cut = rest
	}
	if cut*c.steps < groupedLeast*c.blocks {
		return 0
	}
	return cut
}

// Plan implements [planning.Family].
func (f Grouped) Plan(a planning.Arch, p gemm.Groups) gemm.GroupPlan {
	return planning.Fastest(f.Candidates(a, p))
}

// Candidates implements [planning.Chooser].
func (Grouped) Candidates(a planning.Arch, p gemm.Groups) []gemm.GroupPlan {
	sizes := p.Sizes()
	var plans []gemm.GroupPlan
	type same struct {
		groupedTile
		cut int
	}
	seen := map[same]bool{}
	for _, c := range groupedChoices(a, p.Task, sizes) {
		tiles := 0
		for _, rows := range sizes {
			n, _ := gemm.GroupTiles(rows, c.most)
			tiles += n * c.rowTiles
		}
		if at := (same{c.groupedTile, c.cut(tiles)}); !seen[at] {
			seen[at] = true
			plans = append(plans, c.plan(a, p, sizes, tiles))
		}
	}
	return plans
}

func (c groupedChoice) plan(a planning.Arch, p gemm.Groups, sizes []int, tiles int) gemm.GroupPlan {
	of := p.Task
	of.M, of.LDA = p.Rows(), p.K
	rows := gemm.Realign(of, p.Aligned.A < 16)
	out := p.DType.Output().Size()
	storable := p.Aligned.C >= 16 && p.N*out%16 == 0
	plan := gemm.GroupPlan{
		Label: c.label(), Stages: c.stages, Slots: c.blocks,
		Tiling: kernels.Tiling{
			Tile:  [3]int{c.most, c.rows(), hopperStepBytes / p.DType.Size()},
			Waves: float64(tiles) / float64(c.blocks), Split: 1, Orientation: kernels.OrientationTransposed,
		},
		Seconds: c.seconds(a, p.Task, sizes, tiles) + rows.Seconds(a), Scratch: rows.Copied,
	}
	if c.cut(tiles) > 0 {
		plan.Tiling.Split = 2
	}
	plan.Scratch += int64(c.blocks) * int64(c.rows()*c.most) * 4
	plan.Flags = int64(c.blocks)*hopperConsumers*4 + 2*4
	plan.Bind = func(at gemm.GroupAddresses) []planning.Call {
		calls, lda := rows.Calls(a, &at.Addresses)
		return append(calls, c.call(p, at, lda, storable))
	}
	return plan
}

func (c groupedChoice) call(p gemm.Groups, at gemm.GroupAddresses, lda int, tma bool) planning.Call {
	k := planning.Call{
		Kernel: fmt.Sprintf("ga_hopper_grouped_%s_%d", p.DType, c.most), Shared: c.shared(c.stages, p.Groups), Overlap: true,
		Grid: planning.Dim3{X: c.blocks}, Block: planning.Dim3{X: hopperThreads},
	}
	if c.turns {
		k.Kernel += "_turns"
	}
	depth := hopperStepBytes / p.DType.Size()
	tokens := planning.TensorMap{
		DType: p.DType, Address: at.A, Rows: p.Rows(), Cols: p.K, LD: lda, BoxRows: 64, BoxCols: depth, Swizzle: 128,
	}
	k.Args.TensorMap(planning.TensorMap{
		DType: p.DType, Address: at.B, Rows: p.Groups * p.N, Cols: p.K, LD: at.LDB,
		BoxRows: c.rows(), BoxCols: depth, Swizzle: 128,
	}).TensorMap(tokens)
	if out := p.DType.Output(); tma {
		k.Args.TensorMap(planning.TensorMap{
			DType: out, Address: at.C, Rows: p.Rows(), Cols: p.N, LD: p.N,
			BoxRows: hopperBoxRows, BoxCols: hopperStepBytes / out.Size(), Swizzle: 128,
		})
	} else {
		k.Args.NoTensorMap()
	}
	k.Args.Pointer(at.C).Int64(int64(p.N)).Pointer(at.Scratch).Pointer(at.Flags)
	k.Args.Int32(p.N, p.Rows(), c.steps, c.rowTiles, 0, 0, 0, 0, 0, 0, hopperLead, planning.OneIf(tma))
	tokens.BoxRows = 32
	k.Args.TensorMap(tokens)
	tokens.BoxRows = 16
	k.Args.TensorMap(tokens)
	// Sizes are written before the launch before begins: 0.
	k.Args.Pointer(at.Sizes).Int32(p.Groups, p.Stride, c.rounds, 0, c.streams, c.stages)
	k.Args.Align(64)
	return k
}

// Beside the constants of the products' kernels, measured on an H200: the time in which blocks find the tiles of all groups, the
// reached fraction of bandwidth, the part of the memory time of a last round without all blocks that adds to the others', the
// extra memory time of a ring of few stages, and that of tensor cores if consumers have tiles of their own or if tiles are split,
// which sets blocks apart.
const (
	groupedStart   = 1e-6
	groupedMemory  = 0.90
	groupedEmpty   = 0.35
	groupedShallow = 1.0 // ÷ stages²
	groupedTurns   = 0.12
	groupedApart   = 0.03
)

// seconds is the expected time of a launch with some tiles, with the constants of the products' kernels.
func (c groupedChoice) seconds(a planning.Arch, p kernels.Task, sizes []int, tiles int) float64 {
	m := wideModels.For(a.CC, a.SMs, a.Bandwidth)
	clock := a.LoadClock(m.Clock)
	cycles, drawn, widest := 0.0, 0.0, 0
	for _, rows := range sizes {
		n, width := gemm.GroupTiles(rows, c.most)
		pace := c.wide(width).pace(a, m, p.DType)
		end := m.TurnCycles
		if !c.turns {
			end = m.TileCycles
		}
		took := float64(n*c.rowTiles) * (float64(c.steps)*pace.step + end)
		cycles += took
		drawn += took * pace.drawn
		widest = max(widest, width)
	}
	drawn /= max(cycles, 1)
	cycles /= float64(c.blocks)
	cut := c.cut(tiles)
	rounds := float64(tiles) / float64(c.blocks)
	empty := 1.0
	if whole := tiles - cut; whole > 0 {
		empty = (float64(planning.DivideUp(whole, c.blocks)) + float64(cut)/float64(c.blocks)) / rounds
	}
	t := cycles * empty / clock * drawn
	if c.turns {
		t *= 1 + groupedTurns
	}
	if cut > 0 {
		t *= 1 + groupedApart
	}
	if a.Bandwidth > 0 {
		memory := p.Subject.Bytes(p.M) / (a.Bandwidth * groupedMemory)
		memory *= (1 + groupedEmpty*(empty-1)) * (1 + groupedShallow/float64(c.stages*c.stages))
		t = planning.Norm(m.Both, t, memory)
	}
	t += m.Launch/clock + groupedStart
	if cut > 0 {
		parts := float64(max(1, c.blocks/cut))
		t += (m.Cut + m.Take*parts*float64(c.rows()*widest)/(128*256)) / clock
	}
	return t
}
