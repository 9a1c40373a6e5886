package cuda

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() { attentionFamilies[rungFlash] = flash{} }

// flash is attention of many rows on tensor cores, whose scores never leave the chip:
// flash_hopper.cu on compute capability 9.0.
type flash struct{}

func (flash) name() string { return "flash" }

func (flash) describe(arch) string {
	return "online softmax on tensor cores by TMA and wgmma, producer and consumers that take turns, persistent grid"
}

func (flash) supports(a arch, p attentionProblem) string {
	switch {
	case a.cc != 90:
		return fmt.Sprintf("TMA and wgmma in this form exist on compute capability 9.0 alone, this GPU has %d.%d", a.cc/10, a.cc%10)
	case p.dtype != kernels.FP16 && p.dtype != kernels.BF16:
		return fmt.Sprintf("tensor cores multiply scores of fp16 and bf16, not of %s", p.dtype)
	case p.heads.Dim != 64 && p.heads.Dim != 128:
		return fmt.Sprintf("takes heads of 64 or 128 elements, not of %d", p.heads.Dim)
	case p.aligned < 16:
		return "operands are not aligned to 16 bytes"
	case int64(p.heads.KV)*int64(p.capacity) > largestExtent:
		return fmt.Sprintf("%d heads of %d slots are beyond %d", p.heads.KV, p.capacity, largestExtent)
	case int64(divideUp(p.rows, flashHopperConsumerRows))*int64(p.heads.Query) > largestExtent:
		return fmt.Sprintf("%d heads of %d rows are more tiles than a grid holds", p.heads.Query, p.rows)
	}
	return ""
}

// candidates are the plans among which plan chooses.
func (flash) candidates(a arch, p attentionProblem) []attentionPlan {
	var plans []attentionPlan
	for _, t := range flashHopperTiles {
		if t.dim == p.heads.Dim {
			plans = append(plans, t.plan(a, p))
		}
	}
	return plans
}

func (f flash) plan(a arch, p attentionProblem) attentionPlan {
	return fastestAttention(f.candidates(a, p))
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
