package attention

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// naive is attention_naive.cu: a block for each head of each row, with scores in a workspace.
type naive struct{}

// Constants of attention_naive.cu: threads, and resident blocks per multiprocessor.
const naiveAttentionThreads, naiveAttentionBlocks = 128, 8

func (naive) Name() string { return "naive" }

func (naive) Describe(planning.Arch) string {
	return "scores in a workspace, on CUDA cores: a block for each head of each row"
}

func (naive) Supports(a planning.Arch, p Problem) string { return planning.TypeReason(a, p.DType) }

func (naive) Plan(a planning.Arch, p Problem) attentionPlan {
	items := int64(p.rows) * int64(p.heads.Query)
	blocks := int(min(items, int64(naiveAttentionBlocks*a.SMs)))
	// A key element costs L1 a cycle because a warp's lanes load from different rows. A value is one of 32 in
	// a load, and each load is waited for.
	const keyCycles, valueCycles = 1.0, 0.25
	keys, dim := p.pairs()/float64(p.rows), float64(p.heads.Dim)
	busy := keys * (keyCycles*dim + valueCycles*float64(planning.DivideUp(p.heads.Dim, naiveAttentionThreads)*naiveAttentionThreads))
	// A single block waits for each group of four loads; a cache hit takes about 35 cycles.
	latency := (math.Ceil(keys/naiveAttentionThreads)*dim + keys) / 4 * 40
	return attentionPlan{
		Label: fmt.Sprintf("%d blocks", blocks),
		Tiling: kernels.Tiling{Tile: [3]int{1, p.heads.Dim, naiveAttentionThreads},
			Waves: float64(items) / float64(naiveAttentionBlocks*a.SMs), Split: 1},
		Seconds: planning.LaunchSeconds(a) + max(p.memorySeconds(a), planning.WaveSeconds(a, int(min(items, planning.LargestExtent)),
			naiveAttentionBlocks, max(busy, latency), naiveAttentionBlocks*max(busy, latency/naiveAttentionBlocks))),
		Scratch: int64(blocks) * int64(p.width()) * 4,
		Bind: func(at Addresses) []planning.Call {
			c := planning.Call{Kernel: "ga_attention_naive_" + string(p.DType), Grid: planning.Dim3{X: blocks},
				Block: planning.Dim3{X: naiveAttentionThreads}}
			c.Args.Pointer(at.q).Pointer(at.keys).Pointer(at.values).Pointer(at.out).Pointer(at.position).Pointer(at.scratch)
			c.Args.Int64(int64(p.LDQ)).Int32(p.rows, p.heads.Query, p.heads.Query/p.heads.KV, p.heads.Dim, p.capacity)
			c.Args.Int32(p.window, p.length, p.width()).Float32(p.scale)
			return []planning.Call{c}
		},
	}
}
