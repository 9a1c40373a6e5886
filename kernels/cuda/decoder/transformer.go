// Package decoder plans a decoder's operations other than products and attention, plans their fused forms,
// and binds them on a device.
package decoder

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Constants of transformer.cu.
const (
	transformerThreads = 256
	widestBlock        = 1024
	chooseCluster      = 8 // blocks
)

type transformerAddresses struct {
	x, delta, weight, out            uint64
	tokens, table, position, history uint64
	qkv, keys, values                uint64
	scratch                          uint64
}

// transformerType returns an error if an operation can't use a type: a [*kernels.Unsupported] if the
// architecture lacks it.
func transformerType(a planning.Arch, operation string, d kernels.DType) error {
	if d != kernels.FP32 && d != kernels.FP16 && d != kernels.BF16 {
		return fmt.Errorf("dtype: %q, expected fp32, fp16 or bf16", d)
	}
	if reason := planning.TypeReason(a, d); reason != "" {
		return &kernels.Unsupported{Kernel: operation, DType: d, Reason: reason}
	}
	return nil
}

// namedSize must be at least 1, and the sum with its extra must fit in 32 bits.
type namedSize struct {
	name  string
	value int
}

func checkSizes(sizes ...namedSize) error {
	for _, s := range sizes {
		switch {
		case s.value < 1:
			return fmt.Errorf("%s: %d, expected at least 1", s.name, s.value)
		case s.value > planning.LargestExtent:
			return fmt.Errorf("%s: %d, expected at most %d", s.name, s.value, planning.LargestExtent)
		}
	}
	return nil
}

func pieceOf(d kernels.DType) int { return 16 / d.Size() }

// wholeIf returns 1 if rows at these addresses consist of aligned pieces of 16 bytes.
func wholeIf(d kernels.DType, columns int, addresses ...uint64) int {
	var all uint64
	for _, at := range addresses {
		all |= at
	}
	return planning.OneIf(all%16 == 0 && columns%pieceOf(d) == 0)
}

func itemCall(kernel string, items int64) (planning.Call, error) {
	blocks := (items + transformerThreads - 1) / transformerThreads
	if blocks > math.MaxInt32 {
		return planning.Call{}, fmt.Errorf("%d pieces of 16 bytes are more than a grid holds", items)
	}
	return planning.Call{Kernel: kernel, Grid: planning.Dim3{X: int(blocks)}, Block: planning.Dim3{X: transformerThreads}}, nil
}

func overlapping(a planning.Arch, c planning.Call) planning.Call {
	c.Overlap = a.Overlaps()
	return c
}

func embedCall(a planning.Arch, o kernels.Embedding, at transformerAddresses) (planning.Call, error) {
	if err := checkSizes(namedSize{"rows", o.Rows}, namedSize{"hidden", o.Hidden}, namedSize{"vocab", o.Vocab}); err != nil {
		return planning.Call{}, err
	}
	if err := transformerType(a, "embed", o.DType); err != nil {
		return planning.Call{}, err
	}
	pieces := planning.DivideUp(o.Hidden, pieceOf(o.DType))
	items := int64(pieces) * int64(o.Rows)
	c, err := itemCall("ga_embed_"+string(o.DType), items)
	c.Args.Pointer(at.tokens).Pointer(at.table).Pointer(at.x).Int64(items)
	c.Args.Int32(o.Hidden, o.Vocab, pieces, wholeIf(o.DType, o.Hidden, at.table, at.x))
	return overlapping(a, c), err
}

func normalizeCall(a planning.Arch, o kernels.Normalization, at transformerAddresses) (planning.Call, error) {
	if err := checkSizes(namedSize{"rows", o.Rows}, namedSize{"hidden", o.Hidden}); err != nil {
		return planning.Call{}, err
	}
	if err := transformerType(a, "normalize", o.DType); err != nil {
		return planning.Call{}, err
	}
	switch {
	case o.FromRow < 0 || o.FromRow >= o.Rows:
		return planning.Call{}, fmt.Errorf("from row: %d, expected one of the %d rows", o.FromRow, o.Rows)
	case !(o.Epsilon >= 0) || math.IsInf(float64(float32(o.Epsilon)), 0):
		return planning.Call{}, fmt.Errorf("epsilon: %v, expected at least 0", o.Epsilon)
	}
	// Skips rows without input or output.
	first := o.FromRow
	if at.delta != 0 {
		first = 0
	}
	warps := planning.DivideUp(planning.DivideUp(o.Hidden, pieceOf(o.DType)), 32)
	if warps > widestBlock/32 { // the same number of pieces per thread
		warps = planning.DivideUp(warps, planning.DivideUp(warps, widestBlock/32))
	}
	c := planning.Call{Kernel: "ga_normalize_" + string(o.DType), Grid: planning.Dim3{X: o.Rows - first},
		Block: planning.Dim3{X: 32 * warps}}
	c.Args.Pointer(at.x).Pointer(at.delta).Pointer(at.weight).Pointer(at.out).Float32(o.Epsilon)
	c.Args.Int32(o.Hidden, first, o.FromRow, wholeIf(o.DType, o.Hidden, at.x, at.delta, at.weight, at.out))
	return overlapping(a, c), nil
}

func checkRotation(a planning.Arch, o kernels.Rotation) error {
	if err := o.Heads.Validate(); err != nil {
		return err
	}
	if err := checkSizes(namedSize{"rows", o.Rows}, namedSize{"positions", o.Positions}, namedSize{"query heads", o.Heads.Query},
		namedSize{"elements of a head", o.Heads.Dim}, namedSize{"capacity of the cache", o.Cache.Capacity}); err != nil {
		return err
	}
	if err := transformerType(a, "rotate", o.DType); err != nil {
		return err
	}
	switch {
	case o.Cache.Capacity%kernels.CacheGranule != 0:
		return fmt.Errorf("cache: capacity %d, expected a multiple of %d", o.Cache.Capacity, kernels.CacheGranule)
	case o.Rows > o.Cache.Capacity:
		return fmt.Errorf("rows: %d, expected at most the %d slots of the cache", o.Rows, o.Cache.Capacity)
	case float64(o.Heads.Query)+2*float64(o.Heads.KV) > planning.LargestExtent/float64(o.Heads.Dim):
		return fmt.Errorf("%d query heads and %d of keys and values, of %d elements: expected at most %d columns",
			o.Heads.Query, o.Heads.KV, o.Heads.Dim, planning.LargestExtent)
	}
	return nil
}

func rotateCall(a planning.Arch, o kernels.Rotation, at transformerAddresses) (planning.Call, error) {
	if err := checkRotation(a, o); err != nil {
		return planning.Call{}, err
	}
	half := o.Heads.Dim / 2
	perRow := planning.DivideUp(half, pieceOf(o.DType)) * (o.Heads.Query + 2*o.Heads.KV)
	items := int64(perRow) * int64(o.Rows)
	c, err := itemCall("ga_rotate_"+string(o.DType), items)
	c.Args.Pointer(at.qkv).Pointer(at.position).Pointer(at.table).Pointer(at.keys).Pointer(at.values).Int64(items)
	c.Args.Int32(o.Heads.Query, o.Heads.KV, o.Heads.Dim, o.Positions, o.Cache.Capacity, perRow)
	c.Args.Int32(wholeIf(o.DType, half, at.qkv, at.table, at.keys, at.values))
	return overlapping(a, c), err
}

func gatedCall(a planning.Arch, o kernels.GatedUnit, at transformerAddresses) (planning.Call, error) {
	if err := checkSizes(namedSize{"rows", o.Rows}, namedSize{"inner", o.Inner}); err != nil {
		return planning.Call{}, err
	}
	if err := transformerType(a, "gated", o.DType); err != nil {
		return planning.Call{}, err
	}
	pieces := planning.DivideUp(o.Inner, pieceOf(o.DType))
	items := int64(pieces) * int64(o.Rows)
	c, err := itemCall("ga_gated_"+string(o.DType), items)
	c.Args.Pointer(at.x).Pointer(at.out).Int64(items).Int32(o.Inner, pieces, wholeIf(o.DType, o.Inner, at.x, at.out))
	return overlapping(a, c), err
}

// chooseParts returns the number of blocks that read logits: 1024 threads with 16 bytes each, limited to the
// size of a cluster if blocks form one.
func chooseParts(a planning.Arch, o kernels.TokenChoice) int {
	parts := planning.DivideUp(o.Vocab, pieceOf(o.DType)*widestBlock)
	if a.CC >= 90 {
		return min(parts, chooseCluster)
	}
	return min(parts, a.SMs, widestBlock)
}

// chooseCalls returns one launch if blocks can form a cluster. Otherwise there are two, and the first writes
// 8 bytes per block to at.scratch.
func chooseCalls(a planning.Arch, o kernels.TokenChoice, at transformerAddresses) ([]planning.Call, error) {
	if err := checkSizes(namedSize{"vocab", o.Vocab}); err != nil {
		return nil, err
	}
	if err := transformerType(a, "choose", o.DType); err != nil {
		return nil, err
	}
	historyLen := 0
	if at.history != 0 {
		historyLen = o.HistoryLen
		if err := checkSizes(namedSize{"history", historyLen}); err != nil {
			return nil, err
		}
	}
	parts := chooseParts(a, o)
	c := planning.Call{Kernel: "ga_choose_" + string(o.DType), Grid: planning.Dim3{X: parts}, Block: planning.Dim3{X: widestBlock}}
	c.Args.Pointer(at.x).Pointer(at.tokens).Pointer(at.position).Pointer(at.history).Pointer(at.scratch)
	c.Args.Int32(o.Vocab, historyLen, parts, planning.OneIf(at.x%16 == 0))
	if a.CC >= 90 {
		c.Cluster = planning.Dim3{X: parts}
		return []planning.Call{overlapping(a, c)}, nil
	}
	return []planning.Call{c, {Kernel: "ga_choose_last", Grid: planning.Dim3{X: 1}, Block: planning.Dim3{X: widestBlock}, Args: c.Args}},
		nil
}
