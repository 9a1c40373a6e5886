package attention

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// flash is attention of many rows on tensor cores, with scores kept on chip: flash_hopper.cu on compute
// capability 9.0, flash.cu from 8.0.
type flash struct{}

func (flash) Name() string { return "flash" }

func (flash) Describe(a planning.Arch) string {
	if a.CC == 90 {
		return "online softmax on tensor cores by TMA and wgmma, producer and consumers that take turns, persistent grid"
	}
	return "online softmax on tensor cores by cp.async, ldmatrix and mma.sync"
}

func (flash) Supports(a planning.Arch, p Problem) string {
	switch {
	case a.CC < 80:
		return fmt.Sprintf("cp.async needs compute capability 8.0, this GPU has %d.%d", a.CC/10, a.CC%10)
	case p.DType != kernels.FP16 && p.DType != kernels.BF16:
		return fmt.Sprintf("tensor cores multiply scores of fp16 and bf16, not of %s", p.DType)
	case p.heads.Dim != 64 && p.heads.Dim != 128:
		return fmt.Sprintf("takes heads of 64 or 128 elements, not of %d", p.heads.Dim)
	case p.aligned < 16:
		return "operands are not aligned to 16 bytes"
	case int64(p.heads.KV)*int64(p.capacity) > planning.LargestExtent:
		return fmt.Sprintf("%d heads of %d slots are beyond %d", p.heads.KV, p.capacity, planning.LargestExtent)
	case int64(planning.DivideUp(p.rows, flashRows))*int64(p.heads.Query) > planning.LargestExtent:
		return fmt.Sprintf("%d heads of %d rows are more tiles than a grid holds", p.heads.Query, p.rows)
	}
	return ""
}

// Candidates implements [planning.Chooser].
func (flash) Candidates(a planning.Arch, p Problem) []attentionPlan {
	var plans []attentionPlan
	if a.CC == 90 {
		for _, t := range flashHopperTiles {
			if t.dim == p.heads.Dim {
				plans = append(plans, t.plan(a, p))
			}
		}
	}
	return append(plans, flashPlan(a, p))
}

func (f flash) Plan(a planning.Arch, p Problem) attentionPlan {
	return planning.Fastest(f.Candidates(a, p))
}

// Constants of flash.cu: tile, threads, and maximum registers.
const (
	flashRows, flashKeys             = 64, 64
	flashThreads                     = 128
	flashRegisters, flashRegisters64 = 208, 144
)

type flashModel struct {
	// Rate is the reached fraction of the tensor cores' peak rate.
	Rate float64 `constant:"rate" unit:"1"`
	// Edge is the fixed cost of a block, apart from its keys.
	Edge float64 `constant:"edge" unit:"cycles"`
}

var flashModels = calibration.Of[flashModel]("flash")

func flashPlan(a planning.Arch, p Problem) attentionPlan {
	m := flashModels.For(a.CC, a.SMs, a.Bandwidth)
	shared := 4 * flashKeys * p.heads.Dim * p.DType.Size() // two tiles of keys, two of values
	registers := flashRegisters
	if p.heads.Dim == 64 {
		registers = flashRegisters64
	}
	perSM := max(1, min(65536/(registers*flashThreads), a.SharedMax/shared))
	tile := 2 * float64(flashRows/16*flashKeys/8*p.heads.Dim*p.DType.Size()/32) * planning.TensorClocks(a, p.DType) / m.Rate
	var cost []float64
	longest := 0.0 // cycles of a block, alone or among others
	for _, n := range keyTiles(p, flashRows, flashKeys) {
		cost = append(cost, m.Edge/float64(perSM)+float64(n)*tile)
		longest = max(longest, m.Edge+float64(n)*tile*float64(perSM))
	}
	cycles := max(dealt(cost, p.heads.Query, a.SMs), longest)
	rowTiles := planning.DivideUp(p.rows, flashRows)
	return attentionPlan{
		Label: fmt.Sprintf("%dx%d", flashRows, flashKeys),
		Tiling: kernels.Tiling{Tile: [3]int{flashRows, p.heads.Dim, flashKeys}, Waves: planning.Waves(a, rowTiles*p.heads.Query, perSM),
			Split: 1},
		Seconds: planning.LaunchSeconds(a) + max(p.memorySeconds(a), cycles/(a.ClockMHz*1e6)),
		Bind: func(at Addresses) []planning.Call {
			k := planning.Call{
				Kernel: fmt.Sprintf("ga_flash_%s_%d", p.DType, p.heads.Dim),
				Grid:   planning.Dim3{X: rowTiles * p.heads.Query}, Block: planning.Dim3{X: flashThreads}, Shared: shared,
			}
			k.Args.Pointer(at.q).Pointer(at.keys).Pointer(at.values).Pointer(at.out).Pointer(at.position).Int64(int64(p.LDQ))
			k.Args.Int32(p.rows, p.heads.Query, p.heads.Query/p.heads.KV, p.capacity, p.window, p.length, rowTiles)
			k.Args.Float32(p.scale * math.Log2E)
			return []planning.Call{k}
		},
	}
}

// keyTiles returns the number of key tiles for each tile of rows, in order; the last row is at length.
func keyTiles(p Problem, rows, keys int) []int {
	first := p.length - p.rows
	tiles := make([]int, planning.DivideUp(p.rows, rows))
	for i := range tiles {
		begin := 0
		if p.window > 0 {
			begin = max(0, first+i*rows-p.window+1)
		}
		last := first + min((i+1)*rows, p.rows) - 1
		tiles[i] = last/keys - begin/keys + 1
	}
	return tiles
}

// dealt returns the load of the busiest block when tiles of the given costs, `copies` times each, are
// assigned from the heaviest on.
func dealt(cost []float64, copies, blocks int) float64 {
	total, most := 0.0, slices.Max(cost)
	for _, c := range cost {
		total += c * float64(copies)
	}
	return max(most, total/float64(blocks))
}
