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

// Constants of hopper_grouped.cu.
const (
	groupedRows       = 128 // of weights in a tile
	groupedWidth      = 16  // widths of tiles are multiples of it
	groupedMostGroups = 512
	groupedMostStages = 10
	groupedTable      = ((3*groupedMostGroups+1)*4 + 15) / 16 * 16
	groupedBarriers   = 256
)

// groupedMost are the built tiles by their greatest width.
var groupedMost = []int{16, 32, 64, 128, 192}

// Supports implements [planning.Family].
func (Grouped) Supports(a planning.Arch, p gemm.Groups) string {
	switch {
	case p.DType != kernels.FP16 && p.DType != kernels.BF16 && p.DType != kernels.FP8:
		return fmt.Sprintf("its types are fp16, bf16 and fp8, not %s", p.DType)
	case a.CC != 90:
		return fmt.Sprintf("TMA and wgmma in this form exist only on compute capability 9.0, this GPU has %d.%d", a.CC/10, a.CC%10)
	case p.Groups > groupedMostGroups:
		return fmt.Sprintf("%d groups, its tables have %d", p.Groups, groupedMostGroups)
	case p.PackInside:
		return "its weights are packed before launches, never inside"
	case int64(p.Groups)*int64(p.N) > planning.LargestExtent:
		return fmt.Sprintf("the weights of all groups have more than %d rows", planning.LargestExtent)
	}
	return planning.SizeReason(p.Task, groupedRows, groupedWidth)
}

// groupedChoice is a launch: the tiles' greatest width, blocks of a cluster, and rounds of tiles that are cut along K.
type groupedChoice struct {
	most, size, rounds int
	steps              int // of K
	rowTiles           int // of clusters, in a group
	blocks             int
	streams            int // in which tiles are walked side by side
}

// streams returns in how many streams tiles are walked: in one if groups have the same size. Otherwise the number has no
// divisor in common with the clusters, so that each of them visits all streams.
func streams(sizes []int, clusters int) int {
	if len(sizes) == 0 || slices.Max(sizes)-slices.Min(sizes) <= groupedWidth {
		return 1
	}
	for _, n := range []int{5, 7, 11} {
		if clusters%n != 0 {
			return n
		}
	}
	return 1
}

func (c groupedChoice) stages() int {
	fit := (planning.Shared90 - 1024 - groupedBarriers - hopperBoxes - groupedTable) / ((groupedRows + c.most) * hopperStepBytes)
	return min(groupedMostStages, fit)
}

func (c groupedChoice) shared() int {
	return c.stages()*(groupedRows+c.most)*hopperStepBytes + hopperBoxes + groupedBarriers + groupedTable + 1024
}

// width returns the tiles of a group with some rows, and their width.
func (c groupedChoice) width(rows int) (tiles, width int) {
	if rows == 0 {
		return 0, 0
	}
	tiles = planning.DivideUp(rows, c.most)
	return tiles, planning.DivideUp(planning.DivideUp(rows, tiles), groupedWidth) * groupedWidth
}

func (c groupedChoice) label() string {
	s := fmt.Sprintf("%dx%dt turns stages %d", c.most, groupedRows, c.stages())
	if c.size > 1 {
		s += " cluster 1x2"
	}
	if c.rounds > 0 {
		s += fmt.Sprintf(" split %d", c.rounds)
	}
	return s
}

// sizesOf returns the rows of the groups that have some.
func sizesOf(p kernels.Task) []int {
	rows, err := p.GroupRows(p.M)
	if err != nil {
		return nil // a normalized task has them
	}
	return slices.DeleteFunc(slices.Clone(rows), func(n int) bool { return n == 0 })
}

func groupedChoices(a planning.Arch, p kernels.Task, sizes []int) (all []groupedChoice) {
	largest := slices.Max(append(sizes, 1))
	for i, most := range groupedMost {
		if i > 0 && groupedMost[i-1] >= largest {
			break // a narrower tile has room for every group
		}
		for _, size := range []int{1, 2} {
			c := groupedChoice{
				most: most, size: size, steps: planning.DivideUp(p.K*p.DType.Size(), hopperStepBytes),
				rowTiles: planning.DivideUp(p.N, groupedRows*size), blocks: a.SMs / size * size,
			}
			if c.blocks == 0 {
				continue
			}
			c.streams = streams(sizes, c.blocks/size)
			for c.rounds = range 3 {
				all = append(all, c)
			}
		}
	}
	return all
}

// groupedLeast is LEAST_CUT of hopper_grouped.cu.
const groupedLeast = 8

// cut returns how many tiles are cut along K, as the kernel finds it.
func (c groupedChoice) cut(tiles int) int {
	clusters := c.blocks / c.size
	rest := tiles % clusters
	if rest == 0 || c.rounds == 0 {
		return 0
	}
	cut := rest + (c.rounds-1)*clusters
	if cut > tiles {
		cut = rest
	}
	if cut*c.steps < groupedLeast*clusters {
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
	sizes := sizesOf(p.Task)
	var plans []gemm.GroupPlan
	seen := map[[3]int]bool{}
	for _, c := range groupedChoices(a, p.Task, sizes) {
		tiles := 0
		for _, rows := range sizes {
			n, _ := c.width(rows)
			tiles += n * c.rowTiles
		}
		if at := [3]int{c.most, c.size, c.cut(tiles)}; !seen[at] {
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
		Label: c.label(), Stages: c.stages(), Slots: c.blocks,
		Tiling: kernels.Tiling{
			Tile:  [3]int{c.most, groupedRows, hopperStepBytes / p.DType.Size()},
			Waves: float64(tiles*c.size) / float64(c.blocks), Split: 1, Orientation: kernels.OrientationTransposed,
		},
		Seconds: c.seconds(a, p.Task, sizes, tiles) + rows.Seconds(a), Scratch: rows.Copied,
	}
	if c.cut(tiles) > 0 {
		plan.Tiling.Split = 2
	}
	plan.Scratch += int64(c.blocks) * int64(groupedRows*c.most) * 4
	plan.Flags = int64(c.blocks) * 4
	plan.Bind = func(at gemm.GroupAddresses) []planning.Call {
		calls, lda := rows.Calls(a, &at.Addresses)
		return append(calls, c.call(p, at, lda, storable))
	}
	return plan
}

func (c groupedChoice) call(p gemm.Groups, at gemm.GroupAddresses, lda int, tma bool) planning.Call {
	k := planning.Call{
		Kernel: fmt.Sprintf("ga_hopper_grouped_%s_%d", p.DType, c.most), Shared: c.shared(), Overlap: true,
		Grid: planning.Dim3{X: c.blocks}, Block: planning.Dim3{X: hopperThreads},
	}
	if c.size > 1 {
		k.Cluster = planning.Dim3{X: c.size}
	}
	depth := hopperStepBytes / p.DType.Size()
	tokens := planning.TensorMap{
		DType: p.DType, Address: at.A, Rows: p.Rows(), Cols: p.K, LD: lda, BoxRows: 64, BoxCols: depth, Swizzle: 128,
	}
	k.Args.TensorMap(planning.TensorMap{
		DType: p.DType, Address: at.B, Rows: p.Groups * p.N, Cols: p.K, LD: at.LDB,
		BoxRows: groupedRows, BoxCols: depth, Swizzle: 128,
	}).TensorMap(tokens)
	if out := p.DType.Output(); tma {
		k.Args.TensorMap(planning.TensorMap{
			DType: out, Address: at.C, Rows: p.Rows(), Cols: p.N, LD: p.N,
			BoxRows: hopperBoxRows, BoxCols: hopperStepBytes / out.Size(), Swizzle: 128,
		})
	} else {
		k.Args.Align(64)
		k.Args.Bytes = append(k.Args.Bytes, make([]byte, planning.TensorMapBytes)...)
	}
	k.Args.Pointer(at.C).Int64(int64(p.N)).Pointer(at.Scratch).Pointer(at.Flags)
	k.Args.Int32(p.N, p.Rows(), c.steps, c.rowTiles, 0, 0, 0, 0, 0, 0, hopperLead, planning.OneIf(tma))
	tokens.BoxRows = 32
	k.Args.TensorMap(tokens)
	tokens.BoxRows = 16
	k.Args.TensorMap(tokens)
	k.Args.Pointer(at.Sizes).Int32(p.Groups, p.Stride, c.rounds, planning.OneIf(p.Late), c.streams)
	k.Args.Align(64)
	return k
}

// groupedStart is the time in which blocks find the tiles of all groups.
const groupedStart = 1e-6

// seconds is the expected time of a launch with some tiles, with the constants of the products' kernels.
func (c groupedChoice) seconds(a planning.Arch, p kernels.Task, sizes []int, tiles int) float64 {
	m := wideModels.For(a.CC, a.SMs, a.Bandwidth)
	clock := a.LoadClock(m.Clock)
	clusters := c.blocks / c.size
	cycles, widest := 0.0, 0
	for _, rows := range sizes {
		n, width := c.width(rows)
		t := hopperTile{rows: groupedRows, cols: width, turns: true, transposed: true}
		cycles += float64(n*c.rowTiles) * (float64(c.steps)*t.stepCycles(a, m) + m.TurnCycles)
		widest = max(widest, width)
	}
	cycles /= float64(clusters)
	cut := c.cut(tiles)
	if whole := tiles - cut; whole > 0 {
		even := float64(tiles) / float64(clusters)
		cycles *= (float64(planning.DivideUp(whole, clusters)) + float64(cut)/float64(clusters)) / even
	}
	t := cycles / clock
	if a.Bandwidth > 0 {
		memory := p.Subject.Bytes(p.M) / (a.Bandwidth * m.Memory)
		t = planning.Norm(m.Both, t, memory)
	}
	t += m.Launch/clock + groupedStart
	if cut > 0 {
		parts := float64(max(1, clusters/cut))
		t += (m.Cut + m.Take*parts*float64(groupedRows*widest)/(128*256)) / clock
	}
	if c.size > 1 {
		t += m.ClusterStart
		if tiles > clusters {
			t *= 1 - m.ClusterGain
		}
	}
	return t
}
