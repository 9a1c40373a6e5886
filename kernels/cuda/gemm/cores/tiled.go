package cores

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Tiled is tiled.cu: shared memory and register tiles on CUDA cores.
type Tiled struct{}

type tiledTile struct {
	m, n           int // outputs of a block
	warpsM, warpsN int
	words          int // of a slab of K: a float each, or four int8
	perSM          int // resident blocks per multiprocessor
	// issue is the fraction of instructions that are multiply-adds: 512 of about 610 per slab for 8×8 outputs
	// per thread. With 4×4 outputs, half are shared-memory accesses.
	issue float64
}

const (
	// tiledGroup is the number of tile rows walked together: 1024 rows of A, which stay in L2 while tiles of
	// B pass.
	tiledGroup = 8
	// tiledLatency is the cycles from the load of a slab to its use without other work. tiledEdge is the
	// fixed cycles of a tile.
	tiledLatency, tiledEdge = 700, 2000
)

// Name implements [planning.Family].
func (Tiled) Name() string { return "tiled" }

// Describe implements [planning.Family].
func (Tiled) Describe(planning.Arch) string {
	return "tiles in shared memory and registers on CUDA cores, next slab loaded while one is multiplied"
}

// Supports implements [planning.Family].
func (Tiled) Supports(a planning.Arch, p gemm.Problem) string {
	if p.DType == kernels.TF32 {
		return "tf32 is a format of tensor cores, which tiled does not use"
	}
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	return planning.SizeReason(p.Task, tiledTiles[2].m, tiledTiles[2].n)
}

// depth returns the elements of K in a slab.
func (t tiledTile) depth(d kernels.DType) int {
	if d == kernels.INT8 {
		return 4 * t.words
	}
	return t.words
}

func (t tiledTile) tiles(p kernels.Task) int {
	return planning.DivideUp(p.M, t.m) * planning.DivideUp(p.N, t.n)
}

// seconds models waves of blocks that share the multipliers. A block takes the time of its multiply-adds, or
// of its loads if too few neighbors hide them. Memory time is the lower bound.
func (t tiledTile) seconds(a planning.Arch, p kernels.Task) float64 {
	depth := t.depth(p.DType)
	slabs := float64(planning.DivideUp(p.K, depth))
	multiply := float64(t.m*t.n*depth) / (planning.CoreRate(a, p.DType) * t.busy(a, p.DType))
	latency := slabs*max(multiply, tiledLatency) + tiledEdge
	shared := slabs*max(float64(t.perSM)*multiply, tiledLatency) + tiledEdge
	return planning.LaunchSeconds(a) + max(planning.MemorySeconds(a, p), planning.WaveSeconds(a, t.tiles(p), t.perSM, latency, shared))
}

// busy returns the fraction of time when the multipliers work. A multiprocessor issues to 128 lanes per
// cycle; with 64 multipliers, every second instruction is free.
func (t tiledTile) busy(a planning.Arch, d kernels.DType) float64 {
	lanes := planning.CoreRate(a, d)
	if d == kernels.INT8 {
		lanes /= 4
	}
	return min(0.92, t.issue*128/lanes)
}

// Plan implements [planning.Family].
func (f Tiled) Plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	return planning.Fastest(f.Candidates(a, p))
}

// Candidates implements [planning.Chooser].
func (Tiled) Candidates(a planning.Arch, p gemm.Problem) []gemm.Plan {
	var plans []gemm.Plan
	for _, t := range tiledTiles {
		plans = append(plans, t.plan(a, p))
	}
	return plans
}

func (t tiledTile) plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	// A chunk is four words in shared memory, which are four elements in memory, or 16 for int8.
	chunk := 4 * p.DType.Size()
	if p.DType == kernels.INT8 {
		chunk = 16
	}
	name := fmt.Sprintf("%dx%d", t.m, t.n)
	return gemm.Plan{
		Label:   name,
		Tiling:  kernels.Tiling{Tile: [3]int{t.m, t.n, t.depth(p.DType)}, Waves: planning.Waves(a, t.tiles(p.Task), t.perSM), Split: 1},
		Slots:   t.perSM * a.SMs,
		Seconds: t.seconds(a, p.Task),
		Bind: func(at gemm.Addresses) []planning.Call {
			kernel := "ga_tiled_" + string(p.DType) + "_" + name
			return []planning.Call{gemm.TileCall(kernel, p, at, t.m, t.n, tiledGroup, 32*t.warpsM*t.warpsN, chunk)}
		},
	}
}
