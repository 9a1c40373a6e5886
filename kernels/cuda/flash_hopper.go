package cuda

import (
	"fmt"
	"math"
)

// flashHopperTile is one shape that flash_hopper.cu was built in.
type flashHopperTile struct {
	dim       int
	consumers int // of 64 rows each
	keys      int
}

var flashHopperTiles = []flashHopperTile{{64, 3, 128}, {128, 2, 128}}

// What flash_hopper.cu fixes.
const (
	flashHopperConsumerRows = 64
	flashHopperStagesMost   = 8
	flashHopperBarriers     = 256 // bytes, at most
	flashHopperBoxCols      = 64
	flashHopperOutRows      = 16
)

func (t flashHopperTile) rows() int { return t.consumers * flashHopperConsumerRows }

// stages is how many tiles of keys or values fit beside queries and output.
func (t flashHopperTile) stages() int {
	return min(flashHopperStagesMost, (hopperShared-1024-flashHopperBarriers-2*t.rows()*t.dim*2)/(t.keys*t.dim*2))
}

func (t flashHopperTile) shared() int {
	return 1024 + flashHopperBarriers + 2*t.rows()*t.dim*2 + t.stages()*t.keys*t.dim*2
}

// The model's constants, from times of an H200 with 128 to 16384 rows, which they meet
// within 10 %.
const (
	// flashHopperRate is the part of the tensor cores' rate that tiles of heads of 128 reach;
	// heads of 64 need as many exponents for half of the products.
	flashHopperRate, flashHopperRate64 = 0.75, 0.58
	// flashHopperClock is what the power limit leaves of the highest clock.
	flashHopperClock = 0.8
	// flashHopperTileCycles is what each tile of rows costs beside its keys.
	flashHopperTileCycles = 2500
)

// seconds is what the model expects of one launch.
func (t flashHopperTile) seconds(a arch, p attentionProblem) float64 {
	rate := flashHopperRate
	if t.dim == 64 {
		rate = flashHopperRate64
	}
	// 64 × 8 outputs, 16 deep, take four cycles; there are two products.
	tile := 2 * float64(t.rows()*t.keys*t.dim) / 2048 / rate
	var cost []float64
	for _, n := range keyTiles(p, t.rows(), t.keys) {
		cost = append(cost, flashHopperTileCycles+float64(n)*tile)
	}
	cycles := dealt(cost, p.heads.Query, a.sms)
	return launchSeconds + math.Max(p.memorySeconds(a), cycles/(a.clockMHz*1e6*flashHopperClock))
}

func (t flashHopperTile) plan(a arch, p attentionProblem) attentionPlan {
	return attentionPlan{
		label:   fmt.Sprintf("%dx%d stages %d", t.rows(), t.keys, t.stages()),
		seconds: t.seconds(a, p),
		bind:    func(at attentionAddresses) []call { return []call{t.call(a, p, at)} },
	}
}

// call launches flash_hopper.cu: struct FlashParams there.
func (t flashHopperTile) call(a arch, p attentionProblem, at attentionAddresses) call {
	rowTiles := divideUp(p.rows, t.rows())
	k := call{
		kernel: fmt.Sprintf("ga_flash_hopper_%s_%d_%dx%d", p.dtype, t.dim, t.consumers, t.keys),
		grid:   dim3{x: min(a.sms, rowTiles*p.heads.Query)}, block: dim3{x: 128 * (t.consumers + 1)},
		shared: t.shared(), overlap: true,
	}
	width := p.heads.Query * p.heads.Dim
	rows := tensorMap{dtype: p.dtype, rows: p.rows, cols: width, boxCols: flashHopperBoxCols, swizzle: 128}
	cache := tensorMap{
		dtype: p.dtype, rows: p.heads.KV * p.capacity, cols: p.heads.Dim, ld: p.heads.Dim,
		boxRows: t.keys, boxCols: flashHopperBoxCols, swizzle: 128,
	}
	q, keys, values, out := rows, cache, cache, rows
	q.address, q.ld, q.boxRows = at.q, p.ldq, t.rows()
	keys.address, values.address = at.keys, at.values
	out.address, out.ld, out.boxRows = at.out, width, flashHopperOutRows
	k.args.tensorMap(q).tensorMap(keys).tensorMap(values).tensorMap(out).pointer(at.position)
	k.args.int32(p.rows, p.heads.Query, p.heads.Query/p.heads.KV, p.capacity, p.window, p.length, rowTiles)
	k.args.float32(p.scale * math.Log2E)
	k.args.align(64)
	return k
}
