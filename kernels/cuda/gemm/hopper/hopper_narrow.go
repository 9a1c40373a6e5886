package hopper

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// smallMRows is the maximum rows of A for hopper_narrow.cu. With more rows, wide tiles need less of every
// resource, except when multiprocessors have at most one tile each.
const smallMRows = 512

// smallMTile is a built tile shape, rows of B by rows of A. Labels in run files and symbols call it narrow.
type smallMTile struct{ rows, tokens int }

// Constants of hopper_narrow.cu.
const (
	smallMBlockBytes  = 128    // of K, the width of the swizzle
	smallMWarpScratch = 8 * 80 // bytes of shared memory per consumer warp
	smallMMostStages  = 32
	smallMLargest     = 128 * 256 // elements of a tile, at most
)

func (t smallMTile) depth() int {
	if t.rows == 64 && t.tokens < 96 {
		return 2
	}
	return 1
}

func (t smallMTile) stageBytes() int { return t.depth() * (t.rows + t.tokens) * smallMBlockBytes }

// warps returns the consumer warps; one more produces.
func (t smallMTile) warps() int { return t.rows / 16 }

// shared returns the bytes of the ring, each consumer warp's scratch, and two barriers per stage.
func (t smallMTile) shared(stages int) int {
	return stages*(t.stageBytes()+16) + t.warps()*smallMWarpScratch
}

// smallMClusters are cluster shapes: tiles of different rows of B that share tokens, by tiles of different
// tokens that share rows of B.
var smallMClusters = []struct{ rows, tokens int }{{1, 1}, {2, 1}, {4, 1}, {1, 2}, {2, 2}, {1, 4}, {4, 2}, {2, 4}}

type smallMChoice struct {
	smallMTile
	clusterRows, clusterTokens int
	stages                     int
	steps                      int // stages of K per tile
	tokenTiles                 int // tiles of clusters along M
	tiles                      int // of clusters
	clusters                   int // in the grid
	streamed                   int // tiles that are split along K
}

func (c smallMChoice) size() int { return c.clusterRows * c.clusterTokens }

func (c smallMChoice) blocks() int { return c.clusters * c.size() }

// clustersThatFit returns the number of concurrent clusters with one block per multiprocessor. A cluster lies
// within a GPC, and GPCs have odd numbers of multiprocessors: 30 of 33 clusters of four blocks run
// concurrently on an H200.
func clustersThatFit(a planning.Arch, size int) int {
	if size > 2 {
		return a.SMs * 10 / 11 / size
	}
	return a.SMs / size
}

func smallMTilesOf(d kernels.DType) []smallMTile {
	if d.Size() == 2 {
		return smallMAllTiles
	}
	return smallMTiles
}

var smallMAllTiles = slices.Concat(smallMTiles, smallMTilesBetween)

func smallMChoices(a planning.Arch, p kernels.Task) []smallMChoice {
	var all []smallMChoice
	large := p.M > smallMRows
	if largest := int64(a.SMs) * smallMLargest; large && int64(p.M)*int64(p.N) > largest {
		return nil
	}
	bytes := p.K * p.DType.Size()
	for _, t := range smallMTilesOf(p.DType) {
		for _, cluster := range smallMClusters {
			c := smallMChoice{
				smallMTile: t, clusterRows: cluster.rows, clusterTokens: cluster.tokens,
				steps:      planning.DivideUp(bytes, t.depth()*smallMBlockBytes),
				tokenTiles: planning.DivideUp(p.M, t.tokens*cluster.tokens),
			}
			c.tiles = c.tokenTiles * planning.DivideUp(p.N, t.rows*c.clusterRows)
			fit := clustersThatFit(a, c.size())
			// Parts of a box are whole groups of eight rows; absent tokens cost as much as others.
			covered := c.tokenTiles * t.tokens * cluster.tokens
			if fit < 1 || t.tokens%(8*c.clusterRows) != 0 || covered > planning.DivideUp(p.M, 8)*8*4/3+8 || large && c.tiles > fit {
				continue
			}
			for _, cut := range c.cuts(fit) {
				c.streamed, c.clusters = cut[0], cut[1]
				c.stages = min(smallMMostStages, int(c.busiest()), (a.SharedMax-t.shared(0))/(t.shared(1)-t.shared(0)))
				if c.stages >= min(2, c.steps) {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// cuts returns pairs of split tiles and grid clusters, with fit concurrent clusters: no splits, equal splits
// of all tiles, or splits that balance all clusters.
func (c smallMChoice) cuts(fit int) [][2]int {
	cuts := [][2]int{{0, min(c.tiles, fit)}}
	add := func(streamed, clusters int) {
		if work := int64(streamed) * int64(c.steps); work >= 2*int64(clusters) && work < math.MaxInt32 {
			cuts = append(cuts, [2]int{streamed, clusters})
		}
	}
	for parts := 2; parts <= min(fit/c.tiles, 16); parts++ {
		add(c.tiles, c.tiles*parts)
	}
	rest := c.tiles % fit
	switch {
	case rest == 0:
	case c.tiles < fit:
		if fit%c.tiles != 0 && fit/c.tiles <= 16 {
			add(c.tiles, fit)
		}
	default:
		add(rest+fit, fit)
	}
	return cuts
}

func (c smallMChoice) busiest() int64 {
	streamed := (int64(c.streamed)*int64(c.steps) + int64(c.clusters) - 1) / int64(c.clusters)
	return streamed + int64(planning.DivideUp(c.tiles-c.streamed, c.clusters))*int64(c.steps)
}

// label is "narrow 16x128 stages 11 cluster 1x2 split 64 of 112": rows and columns of C, ring, blocks of a
// cluster along both, and how many of the tiles are split along K.
func (c smallMChoice) label() string {
	s := fmt.Sprintf("narrow %dx%d stages %d", c.tokens, c.rows, c.stages)
	if c.size() > 1 {
		s += fmt.Sprintf(" cluster %dx%d", c.clusterTokens, c.clusterRows)
	}
	if c.streamed > 0 {
		s += fmt.Sprintf(" split %d of %d among %d", c.streamed, c.tiles, c.clusters)
	}
	return s
}

// tiling is the label in numbers. B's rows are wgmma's, so C is computed transposed.
func (c smallMChoice) tiling(a planning.Arch, d kernels.DType) kernels.Tiling {
	t := kernels.Tiling{
		Tile:  [3]int{c.tokens, c.rows, c.depth() * smallMBlockBytes / d.Size()},
		Waves: float64(c.tiles) / float64(clustersThatFit(a, c.size())), Split: 1,
		Orientation: kernels.OrientationTransposed,
	}
	switch {
	case c.even():
		t.Split = c.clusters / c.tiles
	case c.streamed > 0:
		t.Split = 2 // a tile has as many parts as clusters that share it
	}
	return t
}

// smallMPlans returns the plans for small M, or nil if p has too many rows.
func smallMPlans(a planning.Arch, p gemm.Problem) []gemm.Plan {
	var plans []gemm.Plan
	for _, c := range smallMChoices(a, p.Task) {
		plans = append(plans, c.plan(a, p))
	}
	return plans
}

func (c smallMChoice) plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	plan := gemm.Plan{
		Label: c.label(), Tiling: c.tiling(a, p.DType), Stages: c.stages, Slots: clustersThatFit(a, c.size()) * c.size(),
		Seconds: c.seconds(a, p.Task),
	}
	// TMA needs rows aligned to 16 bytes; other A is copied first.
	rows := gemm.Realign(p.Task, p.Aligned.A < 16)
	plan.Seconds += rows.Seconds(a)
	plan.Scratch = rows.Copied
	if blocks := int64(c.blocks()); c.streamed > 0 {
		plan.Scratch += blocks * int64(c.rows*c.tokens) * 4
		plan.Flags = blocks * int64(c.rows/64) * 4
	}
	plan.Bind = func(at gemm.Addresses) []planning.Call {
		calls, lda := rows.Calls(a, &at)
		return append(calls, c.call(p.Task, at, lda, p.Aligned.C >= 16))
	}
	return plan
}

// whole reports whether all blocks add up their tiles alike: no tile is split, or all are in equal parts.
func (c smallMChoice) whole() bool { return c.streamed == 0 || c.even() }

// complete reports whether rows of B may be computed twice: a tile then begins at any row from N's end, and
// elements of C are stored in 16 bytes.
func (c smallMChoice) complete(p kernels.Task) bool {
	return c.whole() && p.N*p.DType.Output().Size()%16 == 0
}

// call launches hopper_narrow.cu with its struct Params. wide means that rows of C are aligned to 16 bytes.
func (c smallMChoice) call(p kernels.Task, at gemm.Addresses, lda int, wide bool) planning.Call {
	k := planning.Call{
		Kernel: fmt.Sprintf("ga_hopper_%s_narrow_%dx%d", p.DType, c.rows, c.tokens),
		Shared: c.shared(c.stages), Overlap: true,
		Grid: planning.Dim3{X: c.blocks()}, Block: planning.Dim3{X: 32 * (c.warps() + 1)},
	}
	if c.size() > 1 {
		k.Cluster = planning.Dim3{X: c.size()}
	}
	depth := smallMBlockBytes / p.DType.Size()
	k.Args.TensorMap(planning.TensorMap{
		DType: p.DType, Address: at.B, Rows: p.N, Cols: p.K, LD: at.LDB,
		BoxRows: c.rows / c.clusterTokens, BoxCols: depth, Swizzle: 128,
	}).TensorMap(planning.TensorMap{
		DType: p.DType, Address: at.A, Rows: p.M, Cols: p.K, LD: lda,
		BoxRows: c.tokens / c.clusterRows, BoxCols: depth, Swizzle: 128,
	})
	k.Args.Pointer(at.C).Pointer(at.Scratch).Pointer(at.Flags).Int64(int64(p.LDC))
	cut, run, rowsFirst := c.streamed*c.steps, c.tokenTiles, 0
	if c.clusterTokens > 1 && c.clusterRows == 1 {
		run, rowsFirst = c.tiles/c.tokenTiles, 1 // neighbors share tokens, which blocks of a cluster do not
	}
	k.Args.Int32(p.M, p.N, c.steps, run, rowsFirst, c.tiles,
		lastStart(p.N, c.rows, c.complete(p)), lastStart(p.M, c.tokens, c.whole()), c.streamed, cut/c.clusters, cut%c.clusters, c.stages)
	k.Args.Int32(planning.OneIf(wide), planning.OneIf(c.tokenTiles > 1), c.clusterRows, c.clusterTokens)
	k.Args.Align(64)
	return k
}
