package softmax

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// fasterTransformer is the two kernels of FasterTransformer 1.0 in softmax_baselines.cu, with one element per
// thread.
type fasterTransformer struct{}

// naive is the third kernel of softmax_baselines.cu: three passes over a row.
type naive struct{}

// Constants of softmax_baselines.cu and FasterTransformer: its maximum columns, and the number of sequences
// above which a block has the rows of a whole one.
const (
	naiveThreads             = 256
	fasterTransformerColumns = 1024
	fasterTransformerFew     = 120
)

func (fasterTransformer) Name() string { return "fastertransformer" }
func (naive) Name() string             { return "naive" }

func (fasterTransformer) Describe(planning.Arch) string {
	return "baseline, as FasterTransformer 1.0 does it: an element to a thread, a block for each row or for a square of them"
}
func (naive) Describe(planning.Arch) string {
	return "baseline: a block for each row, three passes, element by element"
}

func (fasterTransformer) Supports(a planning.Arch, p Problem) string {
	if reason := planning.TypeReason(a, p.DType); reason != "" {
		return reason
	}
	if p.columns > fasterTransformerColumns {
		return fmt.Sprintf("takes up to %d columns, not %d", fasterTransformerColumns, p.columns)
	}
	return ""
}
func (naive) Supports(a planning.Arch, p Problem) string { return planning.TypeReason(a, p.DType) }

// Plan treats rows as sequences of the row's length.
func (fasterTransformer) Plan(a planning.Arch, p Problem) plan {
	threads := 32
	for threads < p.columns {
		threads *= 2
	}
	which, blocks, each := "few", p.rows, 1
	if sequences := planning.DivideUp(p.rows, p.columns); sequences > fasterTransformerFew {
		which, blocks, each = "many", sequences, p.columns
	}
	kernel := fmt.Sprintf("ga_softmax_fastertransformer_%s_%s", p.DType, which)
	w := work{
		blocks: blocks, threads: threads, perSM: max(1, residentBlocks(a, kernel, threads, 0)),
		held: float64(p.columns * p.DType.Size()), passes: float64(each), meeting: float64(each) * 2 * blockMeeting,
		vectors: 1, sharing: 1, slots: float64(blocks*each) * float64(threads),
	}
	return w.plan(a, p, fmt.Sprintf("%s %d threads", which, threads), each, p.columns, func(at Addresses) planning.Call {
		return p.call(a, kernel, blocks, threads, each, at)
	})
}

func (naive) Plan(a planning.Arch, p Problem) plan {
	kernel := "ga_softmax_naive_" + string(p.DType)
	steps := planning.DivideUp(p.columns, naiveThreads)
	w := work{
		blocks: p.rows, threads: naiveThreads, perSM: max(1, residentBlocks(a, kernel, naiveThreads, 0)),
		held: float64(min(p.columns, naiveThreads) * p.DType.Size()), passes: 3 * float64(steps), meeting: 2 * blockMeeting,
		again: 2, vectors: 1, sharing: 1, slots: 3 * float64(p.rows) * float64(steps*naiveThreads),
	}
	return w.plan(a, p, fmt.Sprintf("%d blocks", p.rows), 1, p.columns, func(at Addresses) planning.Call {
		return p.call(a, kernel, p.rows, naiveThreads, 1, at)
	})
}
