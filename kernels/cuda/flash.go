package cuda

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// flash is attention of many rows on tensor cores, whose scores never leave the chip:
// flash_hopper.cu on compute capability 9.0, flash.cu from 8.0 on.
type flash struct{}

func (flash) Name() string { return "flash" }

func (flash) Describe(a arch) string {
	if a.cc == 90 {
		return "online softmax on tensor cores by TMA and wgmma, producer and consumers that take turns, persistent grid"
	}
	return "online softmax on tensor cores by cp.async, ldmatrix and mma.sync"
}

func (flash) Supports(a arch, p attentionProblem) string {
	switch {
	case a.cc < 80:
		return fmt.Sprintf("cp.async needs compute capability 8.0, this GPU has %d.%d", a.cc/10, a.cc%10)
	case p.dtype != kernels.FP16 && p.dtype != kernels.BF16:
		return fmt.Sprintf("tensor cores multiply scores of fp16 and bf16, not of %s", p.dtype)
	case p.heads.Dim != 64 && p.heads.Dim != 128:
		return fmt.Sprintf("takes heads of 64 or 128 elements, not of %d", p.heads.Dim)
	case p.aligned < 16:
		return "operands are not aligned to 16 bytes"
	case int64(p.heads.KV)*int64(p.capacity) > largestExtent:
		return fmt.Sprintf("%d heads of %d slots are beyond %d", p.heads.KV, p.capacity, largestExtent)
	case int64(divideUp(p.rows, flashRows))*int64(p.heads.Query) > largestExtent:
		return fmt.Sprintf("%d heads of %d rows are more tiles than a grid holds", p.heads.Query, p.rows)
	}
	return ""
}

// candidates are the plans among which plan chooses.
func (flash) Candidates(a arch, p attentionProblem) []attentionPlan {
	var plans []attentionPlan
	if a.cc == 90 {
		for _, t := range flashHopperTiles {
			if t.dim == p.heads.Dim {
				plans = append(plans, t.plan(a, p))
			}
		}
	}
	return append(plans, flashPlan(a, p))
}

func (f flash) Plan(a arch, p attentionProblem) attentionPlan {
	return fastest(f.Candidates(a, p))
}

// What flash.cu fixes: its tile, its threads and, at most, their registers.
const (
	flashRows, flashKeys             = 64, 64
	flashThreads                     = 128
	flashRegisters, flashRegisters64 = 208, 144
)

// The model's constants: flashRate is the part of the tensor cores' rate that tiles
// reach together, flashEdge the cycles that a block takes beside its keys.
const flashRate, flashEdge = 0.39, 3000

// flashPlan is the plan of flash.cu.
func flashPlan(a arch, p attentionProblem) attentionPlan {
	shared := 4 * flashKeys * p.heads.Dim * p.dtype.Size() // two tiles of keys, two of values
	registers := flashRegisters
	if p.heads.Dim == 64 {
		registers = flashRegisters64
	}
	perSM := max(1, min(65536/(registers*flashThreads), a.sharedMax/shared))
	tile := 2 * float64(flashRows/16*flashKeys/8*p.heads.Dim*p.dtype.Size()/32) * mmaClocks(a, p.dtype) / flashRate
	var cost []float64
	longest := 0.0 // cycles of a block, alone as among others
	for _, n := range keyTiles(p, flashRows, flashKeys) {
		cost = append(cost, flashEdge/float64(perSM)+float64(n)*tile)
		longest = max(longest, flashEdge+float64(n)*tile*float64(perSM))
	}
	cycles := max(dealt(cost, p.heads.Query, a.sms), longest)
	rowTiles := divideUp(p.rows, flashRows)
	return attentionPlan{
		label:   fmt.Sprintf("%dx%d", flashRows, flashKeys),
		seconds: launchSeconds + max(p.memorySeconds(a), cycles/(a.clockMHz*1e6)),
		bind: func(at attentionAddresses) []call {
			k := call{
				kernel: fmt.Sprintf("ga_flash_%s_%d", p.dtype, p.heads.Dim),
				grid:   dim3{x: rowTiles * p.heads.Query}, block: dim3{x: flashThreads}, shared: shared,
			}
			k.args.pointer(at.q).pointer(at.keys).pointer(at.values).pointer(at.out).pointer(at.position).int64(int64(p.ldq))
			k.args.int32(p.rows, p.heads.Query, p.heads.Query/p.heads.KV, p.capacity, p.window, p.length, rowTiles)
			k.args.float32(p.scale * math.Log2E)
			return []call{k}
		},
	}
}

// keyTiles is how many tiles of keys each tile of rows looks at, from the first tile of
// rows to the last, with the last row where length ends.
func keyTiles(p attentionProblem, rows, keys int) []int {
	first := p.length - p.rows
	tiles := make([]int, divideUp(p.rows, rows))
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

// dealt is the work of the block that gets the most when tiles, which cost what cost
// says and come `copies` times each, are dealt out from the heaviest on.
func dealt(cost []float64, copies, blocks int) float64 {
	total, most := 0.0, slices.Max(cost)
	for _, c := range cost {
		total += c * float64(copies)
	}
	return max(most, total/float64(blocks))
}
