package cores

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Tiled is tiled.cu: shared memory and register tiles on CUDA cores.
type Tiled struct{}

// tiledTile is one tile shape that tiled.cu was built in.
type tiledTile struct {
	m, n           int // outputs of a block
	warpsM, warpsN int
	words          int // of a slab of K: a float each, or four int8
	perSM          int // blocks that a multiprocessor runs at a time
	// issue is the part of its instructions that are multiply-adds: of a thread's 8×8
	// outputs 512 of some 610 in a slab, while 4×4 are as busy with shared memory.
	issue float64
}

const (
	// tiledGroup is how many rows of tiles are walked together: 1024 rows of A, which
	// L2 keeps while tiles of B pass.
	tiledGroup = 8
	// tiledLatency is how many cycles pass from the load of a slab to its use when
	// nothing else is left to do, and tiledEdge what a tile takes before and after.
	tiledLatency, tiledEdge = 700, 2000
)

// Name is the name by which the kernel is selected.
func (Tiled) Name() string { return "tiled" }

// Describe is one line for people.
func (Tiled) Describe(planning.Arch) string {
	return "tiles in shared memory and registers on CUDA cores, next slab loaded while one is multiplied"
}

// Supports returns why p can't run on a, empty when it can.
func (Tiled) Supports(a planning.Arch, p gemm.Problem) string {
	if p.DType == kernels.TF32 {
		return "tf32 is a format of tensor cores, which tiled does not use"
	}
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	return planning.SizeReason(p.Problem, tiledTiles[2].m, tiledTiles[2].n)
}

// depth is how many elements of K a slab has.
func (t tiledTile) depth(d kernels.DType) int {
	if d == kernels.INT8 {
		return 4 * t.words
	}
	return t.words
}

// tiles is how many cover C.
func (t tiledTile) tiles(p kernels.Problem) int {
	return planning.DivideUp(p.M, t.m) * planning.DivideUp(p.N, t.n)
}

// seconds is what the model expects of a product with these tiles: waves of blocks that
// share the multipliers, each of which takes as long as its multiply-adds, or as its loads
// when it has too few neighbours to fill the wait; and memory's time as the floor.
func (t tiledTile) seconds(a planning.Arch, p kernels.Problem) float64 {
	depth := t.depth(p.DType)
	slabs := float64(planning.DivideUp(p.K, depth))
	multiply := float64(t.m*t.n*depth) / (planning.CoreRate(a, p.DType) * t.busy(a, p.DType))
	latency := slabs*max(multiply, tiledLatency) + tiledEdge
	shared := slabs*max(float64(t.perSM)*multiply, tiledLatency) + tiledEdge
	return planning.LaunchSeconds(a) + max(planning.MemorySeconds(a, p), planning.WaveSeconds(a, t.tiles(p), t.perSM, latency, shared))
}

// busy is the part of the time in which the multipliers have work. A multiprocessor
// issues to 128 lanes in a cycle, so that where it has 64 multipliers, every second
// instruction is free.
func (t tiledTile) busy(a planning.Arch, d kernels.DType) float64 {
	lanes := planning.CoreRate(a, d)
	if d == kernels.INT8 {
		lanes /= 4
	}
	return min(0.92, t.issue*128/lanes)
}

// Plan decides how p, which is supported, runs on a.
func (f Tiled) Plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	return planning.Fastest(f.Candidates(a, p))
}

// Candidates are the plans of all tiles.
func (Tiled) Candidates(a planning.Arch, p gemm.Problem) []gemm.Plan {
	var plans []gemm.Plan
	for _, t := range tiledTiles {
		plans = append(plans, t.plan(a, p))
	}
	return plans
}

func (t tiledTile) plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	// A chunk is four words in shared memory, four elements in memory; 16 for int8.
	chunk := 4 * p.DType.Size()
	if p.DType == kernels.INT8 {
		chunk = 16
	}
	name := fmt.Sprintf("%dx%d", t.m, t.n)
	return gemm.Plan{
		Label:   name,
		Tiling:  kernels.Tiling{Tile: [3]int{t.m, t.n, t.depth(p.DType)}, Waves: planning.Waves(a, t.tiles(p.Problem), t.perSM), Split: 1},
		Slots:   t.perSM * a.SMs,
		Seconds: t.seconds(a, p.Problem),
		Bind: func(at gemm.Addresses) []planning.Call {
			kernel := "ga_tiled_" + string(p.DType) + "_" + name
			return []planning.Call{gemm.TileCall(kernel, p, at, t.m, t.n, tiledGroup, 32*t.warpsM*t.warpsN, chunk)}
		},
	}
}
