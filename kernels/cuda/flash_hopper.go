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

var flashHopperTiles = []flashHopperTile{{64, 2, 128}, {128, 2, 128}}

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

// flashHopperChoice is a tile and how many blocks, of heads that share keys, fetch together.
type flashHopperChoice struct {
	flashHopperTile
	cluster int
}

// The model's constants.
const (
	// flashHopperRate is the part of the tensor cores' rate that tiles of heads of 128 reach
	// at hopperClock; heads of 64 need as many exponents for half of the products.
	flashHopperRate, flashHopperRate64 = 0.95, 0.7
	// flashHopperTileCycles is what each tile of rows costs beside its keys.
	flashHopperTileCycles = 2500
)

// seconds is what the model expects of one launch.
func (c flashHopperChoice) seconds(a arch, p attentionProblem) float64 {
	rate := flashHopperRate
	if c.dim == 64 {
		rate = flashHopperRate64
	}
	// 64 × 8 outputs, 16 deep, take four cycles; there are two products.
	tile := 2 * float64(c.rows()*c.keys*c.dim) / 2048 / rate
	var cost []float64
	for _, n := range keyTiles(p, c.rows(), c.keys) {
		cost = append(cost, flashHopperTileCycles+float64(n)*tile)
	}
	cycles := dealt(cost, p.heads.Query, a.sms)
	t := launchSeconds + math.Max(p.memorySeconds(a), cycles/(a.clockMHz*1e6*hopperClock))
	if c.cluster > 1 {
		t += hopperClusterStart
	}
	return t
}

func (c flashHopperChoice) plan(a arch, p attentionProblem) attentionPlan {
	label := fmt.Sprintf("%dx%d stages %d", c.rows(), c.keys, c.stages())
	if c.cluster > 1 {
		label += fmt.Sprintf(" cluster %d", c.cluster)
	}
	return attentionPlan{
		label:   label,
		seconds: c.seconds(a, p),
		bind:    func(at attentionAddresses) []call { return []call{c.call(a, p, at)} },
	}
}

// call launches flash_hopper.cu: struct FlashParams there.
func (c flashHopperChoice) call(a arch, p attentionProblem, at attentionAddresses) call {
	rowTiles := divideUp(p.rows, c.rows())
	clusters := min(a.sms/c.cluster, rowTiles*p.heads.Query/c.cluster)
	k := call{
		kernel: fmt.Sprintf("ga_flash_hopper_%s_%d_%dx%d", p.dtype, c.dim, c.consumers, c.keys),
		grid:   dim3{x: clusters * c.cluster}, block: dim3{x: 128 * (c.consumers + 1)},
		shared: c.shared(), overlap: true,
	}
	if c.cluster > 1 {
		k.cluster = dim3{x: c.cluster}
	}
	width := p.heads.Query * p.heads.Dim
	rows := tensorMap{dtype: p.dtype, rows: p.rows, cols: width, boxCols: flashHopperBoxCols, swizzle: 128}
	cache := tensorMap{
		dtype: p.dtype, rows: p.heads.KV * p.capacity, cols: p.heads.Dim, ld: p.heads.Dim,
		boxRows: c.keys / c.cluster, boxCols: flashHopperBoxCols, swizzle: 128,
	}
	q, keys, values, out := rows, cache, cache, rows
	q.address, q.ld, q.boxRows = at.q, p.ldq, c.rows()
	keys.address, values.address = at.keys, at.values
	out.address, out.ld, out.boxRows = at.out, width, flashHopperOutRows
	k.args.tensorMap(q).tensorMap(keys).tensorMap(values).tensorMap(out).pointer(at.position)
	k.args.int32(p.rows, p.heads.Query, p.heads.Query/p.heads.KV, p.capacity, p.window, p.length, rowTiles)
	k.args.float32(p.scale * math.Log2E)
	k.args.align(64)
	return k
}
