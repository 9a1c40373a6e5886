package quantised

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// scaledWalk is what launches of hopper_scaled.cu and hopper_scaled_wide.cu have in common: a persistent grid of clusters that walk
// over tiles, of which the last rounds may be split along K.
type scaledWalk struct {
	stages             int
	size               int // blocks of a cluster
	rowTiles, colTiles int // of a cluster
	steps, blocks      int
	split              int // tiles that are split along K
	grouped            bool
}

// newScaledWalk returns a walk without stages and blocks.
func newScaledWalk(p kernels.Task, size, rowTiles, colTiles int) scaledWalk {
	return scaledWalk{
		size: size, rowTiles: rowTiles, colTiles: colTiles, steps: planning.DivideUp(p.K, scaledGroup),
		grouped: p.Weights.GroupK == scaledGroup,
	}
}

// scaledStages returns the stages that fit into shared memory, of which a launch needs these bytes by stages.
func scaledStages(shared func(stages int) int) int {
	return min(scaledMostStages, (planning.Shared90-shared(0))/(shared(1)-shared(0)))
}

func (c scaledWalk) tiles() int    { return c.rowTiles * c.colTiles }
func (c scaledWalk) clusters() int { return c.blocks / c.size }

// splits returns the walk without split tiles, and with those of the last rounds.
func (c scaledWalk) splits(a planning.Arch) []scaledWalk {
	clusters := a.SMs / c.size
	c.blocks = min(c.tiles(), clusters) * c.size
	all, rest := []scaledWalk{c}, c.tiles()%clusters
	c.blocks = clusters * c.size
	for _, c.split = range []int{rest, rest + clusters} {
		work := int64(c.split) * int64(c.steps)
		if rest > 0 && c.split <= c.tiles() && work >= int64(scaledLeast*clusters) && work*int64(clusters) <= math.MaxInt32 {
			all = append(all, c)
		}
	}
	return all
}

// plan returns the plan of a launch with a tile of tokens and columns of C. seconds are those of the launch.
func (c scaledWalk) plan(a planning.Arch, p gemm.Problem, label string, tile [2]int, seconds float64,
	call func(gemm.Problem, gemm.Addresses, int) planning.Call) gemm.Plan {
	rows := gemm.Realign(p.Task, p.Aligned.A < 16)
	plan := gemm.Plan{
		Label: label, Stages: c.stages, Slots: a.SMs, Scratch: rows.Copied, Seconds: seconds + rows.Seconds(a),
		Tiling: kernels.Tiling{
			Tile: [3]int{tile[0], tile[1], scaledGroup}, Waves: float64(c.tiles()*c.size) / float64(a.SMs), Split: 1,
		},
	}
	if c.split > 0 {
		plan.Tiling.Split = 2
		plan.Scratch += int64(c.blocks) * int64(tile[0]*tile[1]) * 4
		plan.Flags = int64(c.blocks) * 2 * 4
	}
	plan.Bind = func(at gemm.Addresses) []planning.Call {
		calls, lda := rows.Calls(a, &at)
		return append(calls, call(p, at, lda))
	}
	return plan
}

// rest appends what follows the maps of the operands: C, the walk over rows and columns of the first and the second operand, and the
// scales, those of activations in boxes of a tile's tokens.
func (c scaledWalk) rest(k *planning.Call, p gemm.Problem, at gemm.Addresses, rows, cols int, pairRows bool, tokens int) {
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
	cut := c.split * c.steps
	k.Args.Int32(rows, cols, c.steps, c.rowTiles, c.colTiles, min(scaledTogether, c.rowTiles), c.split, cut/c.clusters(),
		cut%c.clusters(), planning.OneIf(pairRows), 0, planning.OneIf(tma))
	scales, _ := p.ActivationScales()
	if c.grouped {
		k.Args.TensorMap(planning.TensorMap{
			DType: kernels.FP32, Address: at.ScalesA, Rows: scales.Groups, Cols: p.M, LD: scales.LD, BoxRows: 1, BoxCols: tokens,
		})
	} else {
		k.Args.NoTensorMap()
	}
	k.Args.Pointer(at.ScalesA).Pointer(at.ScalesB).Int32(scales.Groups, c.stages)
	k.Args.Align(64)
}

// seconds is the expected time of a launch: step is that of a step, end the cycles of a tile's end, and area the sums of a tile.
func (c scaledWalk) seconds(a planning.Arch, p kernels.Task, step, end float64, area int) float64 {
	rounds := float64(planning.DivideUp(c.tiles()-c.split, c.clusters())) + float64(c.split)/float64(c.clusters())
	t := rounds*float64(c.steps)*step + math.Ceil(rounds)*end/a.LoadClock(scaledClock)
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
		t += scaledCut + scaledTake*parts*float64(area)/(128*128)
	}
	return t
}
