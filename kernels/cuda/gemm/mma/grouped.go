package mma

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Grouped is mma_grouped.cuh: one persistent launch for the rows of all groups, from Ampere on.
type Grouped struct{}

// Name implements [planning.Family].
func (Grouped) Name() string { return "mma-grouped" }

// Describe implements [planning.Family].
func (Grouped) Describe(planning.Arch) string {
	return "one persistent launch for the rows of all groups: mma.sync, cp.async across tiles, tiles as wide as a group needs, split-K"
}

// Supports implements [planning.Family].
func (Grouped) Supports(a planning.Arch, p gemm.Groups) string {
	switch {
	case a.CC < 80:
		return fmt.Sprintf("cp.async exists from compute capability 8.0 on, this GPU has %d.%d", a.CC/10, a.CC%10)
	case !slices.Contains([]kernels.DType{kernels.FP16, kernels.BF16, kernels.INT8, kernels.FP8}, p.DType):
		return fmt.Sprintf("its types are fp16, bf16, int8 and fp8, not %s", p.DType)
	case p.PackInside:
		return "its weights are packed before launches, never inside"
	case int64(p.Groups)*int64(p.N) > planning.LargestExtent || p.Rows() > planning.LargestExtent:
		return fmt.Sprintf("the rows of all groups, or those of their weights, are more than %d", planning.LargestExtent)
	case p.K > planning.LargestExtent/p.DType.Size():
		return fmt.Sprintf("a row of K %d has more than %d bytes", p.K, planning.LargestExtent)
	}
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	// Each group has an incomplete tile at most.
	of := p.Task
	of.M += p.Groups * gemm.GroupWidth
	return planning.SizeReason(of, gemm.GroupWidth, groupedTiles[0].rows)
}

type groupedTile struct {
	rows, most     int // of weights, and tokens at most
	warpsR, warpsC int // the warps that share them
	row            int // bytes of K in a stage
	perSM          int // resident blocks per SM, by registers
}

// Constants of mma_grouped.cuh.
const (
	groupedLeastStages, groupedMostStages = 3, 8
	groupedLine                           = 16 * 32 // bytes of the line of pieces
)

func (t groupedTile) threads() int    { return t.warpsR * t.warpsC * 32 }
func (t groupedTile) stageBytes() int { return (t.rows + t.most) * t.row }

// shared returns the bytes of shared memory of a block: the ring, a slab of 8 tokens a warp, the line, the table.
func (t groupedTile) shared(stages, groups, outSize int) int {
	return stages*t.stageBytes() + t.warpsC*(8*(t.rows*outSize+t.warpsR*16)) + groupedLine + 2*(groups+1)*4
}

// groupedChoice is a launch: a tile, blocks on a multiprocessor, stages, and ranges of K.
type groupedChoice struct {
	groupedTile
	stages   int
	rowTiles int // of a group
	tiles    int // of all groups
	room     int // tiles of any sizes that the launch may be given
	splits   int
	steps    int // of a range
	blocks   int
}

func (c groupedChoice) pieces() int { return c.tiles * c.splits }

func (c groupedChoice) label() string {
	s := fmt.Sprintf("%dx%dt stages %d", c.most, c.rows, c.stages)
	if c.perSM > 1 {
		s += fmt.Sprintf(" %d blocks", c.perSM)
	}
	if c.splits > 1 {
		s += fmt.Sprintf(" splits %d", c.splits)
	}
	return s
}

// partial returns the bytes of the sums of split tiles.
func (c groupedChoice) partial() int64 {
	if c.splits == 1 {
		return 0
	}
	return int64(c.room) * int64(c.splits) * int64(c.rows*c.most*4)
}

// groupedMostPartial bounds the sums of split tiles in scratch, in bytes.
const groupedMostPartial = 256 << 20

func groupedChoices(a planning.Arch, p gemm.Groups, sizes []int) (all []groupedChoice) {
	largest := slices.Max(append(sizes, 1))
	out := p.DType.Output().Size()
	narrower := 0
	for _, t := range groupedTiles {
		if narrower >= largest && t.most > narrower {
			break // every group has room in narrower tiles
		}
		narrower = t.most
		c := groupedChoice{groupedTile: t, rowTiles: planning.DivideUp(p.N, t.rows)}
		for _, rows := range sizes {
			n, _ := gemm.GroupTiles(rows, t.most)
			c.tiles += n * c.rowTiles
		}
		c.room = c.tiles
		if p.Stride > 0 {
			c.room = p.Groups * planning.DivideUp(p.Stride, t.most) * c.rowTiles
		}
		steps := planning.DivideUp(p.K*p.DType.Size(), t.row)
		for c.perSM = t.perSM; ; c.perSM-- {
			// An SM has 1 KB more than a block may have, and keeps 1 KB for each block.
			room := (a.SharedMax+1024)/c.perSM - 1024 - t.shared(0, p.Groups, out)
			c.stages, c.blocks = min(groupedMostStages, room/t.stageBytes()), a.SMs*c.perSM
			if c.stages >= groupedLeastStages || c.perSM == 1 {
				break
			}
		}
		for _, c.splits = range mmaSplits {
			// More ranges would wait for an SM, or have too little work.
			if c.stages < groupedLeastStages || c.splits > 1 && (c.tiles*c.splits > 4*c.blocks || steps < 4*c.splits) {
				break
			}
			c.steps = planning.DivideUp(steps, c.splits)
			c.splits = planning.DivideUp(steps, c.steps)
			if n := len(all); c.partial() <= groupedMostPartial && (n == 0 || all[n-1] != c) {
				all = append(all, c)
			}
		}
	}
	return all
}

// Plan implements [planning.Family].
func (f Grouped) Plan(a planning.Arch, p gemm.Groups) gemm.GroupPlan {
	sizes := p.Sizes()
	var best groupedChoice
	seconds := math.Inf(1)
	for _, c := range groupedChoices(a, p, sizes) {
		if this := c.seconds(a, p.Task, sizes); this < seconds {
			best, seconds = c, this
		}
	}
	return best.plan(a, p, seconds)
}

// Candidates implements [planning.Chooser].
func (Grouped) Candidates(a planning.Arch, p gemm.Groups) []gemm.GroupPlan {
	sizes := p.Sizes()
	var plans []gemm.GroupPlan
	for _, c := range groupedChoices(a, p, sizes) {
		plans = append(plans, c.plan(a, p, c.seconds(a, p.Task, sizes)))
	}
	return plans
}

func (c groupedChoice) plan(a planning.Arch, p gemm.Groups, seconds float64) gemm.GroupPlan {
	size := int64(p.DType.Size())
	rowBytes := int64(support.PackedLDB(p.DType, p.K)) * size
	of := p.Task
	of.M, of.LDA = p.Rows(), p.K
	rows := gemm.Realign(of, p.Aligned.A < 16 || int64(p.K)*size != rowBytes)
	plan := gemm.GroupPlan{
		Label: c.label(), Stages: c.stages, Slots: c.blocks,
		Tiling: kernels.Tiling{
			Tile:  [3]int{c.most, c.rows, c.row / p.DType.Size()},
			Waves: planning.Waves(a, c.pieces(), c.perSM), Split: c.splits, Orientation: kernels.OrientationTransposed,
		},
		Seconds: seconds + rows.Seconds(a), Scratch: rows.Copied + c.partial(),
		Flags: 2 * 4, // tiles that were taken, and blocks that are done
	}
	if c.splits > 1 {
		plan.Flags += int64(c.room) * 4
	}
	plan.Bind = func(at gemm.GroupAddresses) []planning.Call {
		calls, lda := rows.Calls(a, &at.Addresses)
		k := planning.Call{
			Kernel: fmt.Sprintf("ga_mma_grouped_%s_%dx%d", p.DType, c.rows, c.most),
			Grid:   planning.Dim3{X: c.blocks},
			Block:  planning.Dim3{X: c.threads()},
			Shared: c.shared(c.stages, p.Groups, p.DType.Output().Size()),
		}
		k.Args.Pointer(at.B).Pointer(at.A).Pointer(at.C).Pointer(at.Scratch).Pointer(at.Flags).Pointer(at.Sizes)
		k.Args.Int64(int64(at.LDB) * size).Int64(int64(lda) * size).Int64(int64(p.N))
		k.Args.Int32(p.N, int(rowBytes), p.Groups, p.Stride, c.rowTiles, c.splits, c.steps, c.stages, planning.OneIf(p.Aligned.C >= 16))
		k.Args.Align(8)
		return append(calls, k)
	}
	return plan
}

// Beside the constants of mma.cu, measured on an H200: the time in which blocks find the tiles of all groups, the part of the memory
// time of a last round without all blocks that adds to the others', the part of a reduction that each range of K adds, and the
// cycles in which a lone block's warps wait for each other at each step.
const (
	groupedStart  = 1e-6
	groupedEmpty  = 0.35
	groupedReduce = 0.8
	groupedWait   = 200
)

// seconds is the expected time of a launch, from the resources of [mmaChoice.seconds].
func (c groupedChoice) seconds(a planning.Arch, p kernels.Task, sizes []int) float64 {
	m := models.For(a.CC, a.SMs, a.Bandwidth)
	clock := a.LoadClock(m.Clock)
	units := float64(planning.DivideUp(p.K*p.DType.Size(), c.row) * c.row / 32) // 32 bytes of K each
	var multiply, loaded, read, sums float64
	for _, rows := range sizes {
		n, width := gemm.GroupTiles(rows, c.most)
		tiles := float64(n * c.rowTiles)
		// Warps that share the tokens wait for those with most.
		slowest := planning.DivideUp(width, gemm.GroupWidth*c.warpsC) * gemm.GroupWidth * c.warpsC
		of := mmaChoice{mmaTile: mmaTile{m: c.rows, n: slowest, warpsM: c.warpsR, warpsN: c.warpsC}}
		multiply += tiles * units * of.unitClocks(a, p.DType, c.perSM)
		if c.perSM == 1 { // no other block multiplies while this one's warps wait for each other
			multiply += tiles * units / float64(c.row/32) * groupedWait
		}
		loaded += tiles * units * float64((c.rows+width)*32)
		read += tiles * units * float64((c.rows*c.warpsC+width*c.warpsR)*32)
		sums += tiles * float64(c.rows*width*4)
	}
	// A last round, or the only one, does not fill all multiprocessors.
	slots := a.SMs
	if c.pieces() > a.SMs {
		slots = c.blocks
	}
	empty := float64(planning.DivideUp(c.pieces(), slots)*slots) / float64(max(1, c.pieces()))
	sms := float64(a.SMs) * clock
	inFlight := float64(min(c.perSM, planning.DivideUp(c.pieces(), a.SMs)) * (c.stages - 1) * c.stageBytes())
	memory := 0.0
	if a.Bandwidth > 0 {
		memory = p.Subject.Bytes(p.M) / (a.Bandwidth * m.Memory) * (1 + groupedEmpty*(empty-1))
	}
	t := planning.Norm(m.Overlap, multiply*empty/sms, (loaded+read)*empty/m.SharedBytes/sms, loaded*empty/inFlight*m.Latency/sms,
		loaded*empty/L2Bytes(a)/sms, memory) + m.Launch/clock + groupedStart
	if c.splits > 1 {
		// Every block leaves its sums, the last one reads all, one after the other.
		t += groupedReduce*float64(c.splits)*m.Reduce/clock + 2*sums*empty/m.ReduceBytes/sms
	}
	return t
}
