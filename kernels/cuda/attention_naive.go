package cuda

import (
	"fmt"
	"math"
)

// naiveAttention is attention_naive.cu: a block for each head of each row, the scores in
// a workspace.
type naiveAttention struct{}

// What attention_naive.cu fixes, and how many of its blocks a multiprocessor is given.
const naiveAttentionThreads, naiveAttentionBlocks = 128, 8

func (naiveAttention) Name() string { return "naive" }

func (naiveAttention) Describe(arch) string {
	return "scores in a workspace, on CUDA cores: a block for each head of each row"
}

func (naiveAttention) Supports(a arch, p attentionProblem) string { return typeReason(a, p.dtype) }

func (naiveAttention) Plan(a arch, p attentionProblem) attentionPlan {
	items := int64(p.rows) * int64(p.heads.Query)
	blocks := int(min(items, int64(naiveAttentionBlocks*a.sms)))
	// Each element of a key costs the L1 a cycle, since those that a warp loads together lie
	// in rows of their own; a value's is one of 32 in a load, and each load is waited for.
	const keyCycles, valueCycles = 1.0, 0.25
	keys, dim := p.pairs()/float64(p.rows), float64(p.heads.Dim)
	busy := keys * (keyCycles*dim + valueCycles*float64(divideUp(p.heads.Dim, naiveAttentionThreads)*naiveAttentionThreads))
	// Alone, a block waits out each group of four loads: a cache hit is some 35 cycles away.
	alone := (math.Ceil(keys/naiveAttentionThreads)*dim + keys) / 4 * 40
	return attentionPlan{
		label:   fmt.Sprintf("%d blocks", blocks),
		seconds: launchSeconds + max(p.memorySeconds(a), waveSeconds(a, int(min(items, largestExtent)), naiveAttentionBlocks, max(busy, alone), naiveAttentionBlocks*max(busy, alone/naiveAttentionBlocks))),
		scratch: int64(blocks) * int64(p.width()) * 4,
		bind: func(at attentionAddresses) []call {
			c := call{kernel: "ga_attention_naive_" + string(p.dtype), grid: dim3{x: blocks}, block: dim3{x: naiveAttentionThreads}}
			c.args.pointer(at.q).pointer(at.keys).pointer(at.values).pointer(at.out).pointer(at.position).pointer(at.scratch)
			c.args.int64(int64(p.ldq)).int32(p.rows, p.heads.Query, p.heads.Query/p.heads.KV, p.heads.Dim, p.capacity)
			c.args.int32(p.window, p.length, p.width()).float32(p.scale)
			return []call{c}
		},
	}
}
