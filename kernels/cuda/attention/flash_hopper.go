package attention

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// flashHopperTile is a built tile shape of flash_hopper.cu.
type flashHopperTile struct {
	dim       int
	consumers int // each with 64 rows
	keys      int
}

// Constants of flash_hopper.cu.
const (
	flashHopperConsumerRows = 64
	flashHopperStagesMost   = 8
	flashHopperBarriers     = 256 // bytes, at most
	flashHopperBoxCols      = 64
	flashHopperOutRows      = 16
)

func (t flashHopperTile) rows() int { return t.consumers * flashHopperConsumerRows }

// stages returns how many tiles of keys or values fit in shared memory next to queries and output.
func (t flashHopperTile) stages() int {
	return min(flashHopperStagesMost, (planning.Shared90-1024-flashHopperBarriers-2*t.rows()*t.dim*2)/(t.keys*t.dim*2))
}

func (t flashHopperTile) shared() int {
	return 1024 + flashHopperBarriers + 2*t.rows()*t.dim*2 + t.stages()*t.keys*t.dim*2
}

type flashHopperModel struct {
	// Rate is the reached fraction of the tensor cores' rate for heads of 128. Heads of 64 need as many
	// exponentials for half of the products.
	Rate   float64 `constant:"rate" unit:"1"`
	Rate64 float64 `constant:"rate_64" unit:"1"`
	// Clock is the fraction of the highest clock under the power limit.
	Clock float64 `constant:"clock" unit:"1"`
	// TileCycles is the fixed cost of a tile of rows, apart from its keys.
	TileCycles float64 `constant:"tile_cycles" unit:"cycles"`
}

var flashHopperModels = calibration.Of[flashHopperModel]("flash_hopper")

func (t flashHopperTile) seconds(a planning.Arch, p Problem) float64 {
	m := flashHopperModels.For(a.CC, a.SMs, a.Bandwidth)
	rate := m.Rate
	if t.dim == 64 {
		rate = m.Rate64
	}
	// wgmma takes four cycles for 64 × 8 outputs, 16 deep; there are two products.
	tile := 2 * float64(t.rows()*t.keys*t.dim) / 2048 / rate
	var cost []float64
	for _, n := range keyTiles(p, t.rows(), t.keys) {
		cost = append(cost, m.TileCycles+float64(n)*tile)
	}
	cycles := dealt(cost, p.heads.Query, a.SMs)
	return planning.LaunchSeconds(a) + math.Max(p.memorySeconds(a), cycles/(a.ClockMHz*1e6*m.Clock))
}

func (t flashHopperTile) plan(a planning.Arch, p Problem) attentionPlan {
	return attentionPlan{
		Label: fmt.Sprintf("%dx%d stages %d", t.rows(), t.keys, t.stages()),
		Tiling: kernels.Tiling{Tile: [3]int{t.rows(), t.dim, t.keys},
			Waves: planning.Waves(a, planning.DivideUp(p.rows, t.rows())*p.heads.Query, 1), Split: 1},
		Seconds: t.seconds(a, p),
		Bind:    func(at Addresses) []planning.Call { return []planning.Call{t.call(a, p, at)} },
	}
}

func (t flashHopperTile) call(a planning.Arch, p Problem, at Addresses) planning.Call {
	rowTiles := planning.DivideUp(p.rows, t.rows())
	k := planning.Call{
		Kernel: fmt.Sprintf("ga_flash_hopper_%s_%d_%dx%d", p.DType, t.dim, t.consumers, t.keys),
		Grid:   planning.Dim3{X: min(a.SMs, rowTiles*p.heads.Query)}, Block: planning.Dim3{X: 128 * (t.consumers + 1)},
		Shared: t.shared(), Overlap: true,
	}
	width := p.heads.Query * p.heads.Dim
	rows := planning.TensorMap{DType: p.DType, Rows: p.rows, Cols: width, BoxCols: flashHopperBoxCols, Swizzle: 128}
	cache := planning.TensorMap{
		DType: p.DType, Rows: p.heads.KV * p.capacity, Cols: p.heads.Dim, LD: p.heads.Dim,
		BoxRows: t.keys, BoxCols: flashHopperBoxCols, Swizzle: 128,
	}
	q, keys, values, out := rows, cache, cache, rows
	q.Address, q.LD, q.BoxRows = at.q, p.LDQ, t.rows()
	keys.Address, values.Address = at.keys, at.values
	out.Address, out.LD, out.BoxRows = at.out, width, flashHopperOutRows
	k.Args.TensorMap(q).TensorMap(keys).TensorMap(values).TensorMap(out).Pointer(at.position)
	k.Args.Int32(p.rows, p.heads.Query, p.heads.Query/p.heads.KV, p.capacity, p.window, p.length, rowTiles)
	k.Args.Float32(p.scale * math.Log2E)
	k.Args.Align(64)
	return k
}
