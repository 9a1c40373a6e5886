// Package support plans the launches around products: filling and clearing memory, packing weights, copying
// rows to aligned ones, and timing blocks of launches.
package support

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Constants of support.cu, which documents each kernel.

const (
	supportThreads = 256 // per block, except for the readers
	readThreads    = 512
	transposeTile  = 64
)

// gridFor returns a grid with one thread per item, limited to a few times the GPU's capacity, because every
// kernel of support.cu loops.
func gridFor(a planning.Arch, items int64, threads int) planning.Dim3 {
	blocks := (items + int64(threads) - 1) / int64(threads)
	return planning.Dim3{X: int(max(1, min(blocks, int64(a.SMs)*16)))}
}

// The codes of enum FillDType and FillDistribution in fill.cuh.
var (
	fillDTypes = map[kernels.DType]int{
		kernels.FP32: 0, kernels.TF32: 1, kernels.FP16: 2, kernels.BF16: 3, kernels.FP8: 4, kernels.INT8: 5,
	}
	fillDistributions = map[kernels.Distribution]int{kernels.Normal: 0, kernels.Integers: 1}
)

// FillCall writes n elements of type d from a distribution to dst, a multiple of 4. The bits equal the CPU's
// for the same seed. tf32 is fp32 rounded to its 10 bits, as in [kernels.Encode].
func FillCall(a planning.Arch, dst uint64, n int64, d kernels.DType, dist kernels.Distribution, seed uint64) (planning.Call, error) {
	code, ok := fillDTypes[d]
	if !ok {
		return planning.Call{}, fmt.Errorf("fill buffer: unknown dtype %q", d)
	}
	if dist == kernels.Zeros {
		return ZeroCall(a, dst, n*int64(d.Size())), nil
	}
	distribution, ok := fillDistributions[dist]
	if !ok {
		return planning.Call{}, fmt.Errorf("fill buffer: unknown distribution %q: expected normal, integers or zeros", dist)
	}
	c := planning.Call{Kernel: "ga_fill", Grid: gridFor(a, n*int64(d.Size())/4+1, supportThreads), Block: planning.Dim3{X: supportThreads}}
	c.Args.Pointer(dst).Int64(n).Int64(int64(seed)).Int32(code, distribution)
	return c, nil
}

// ZeroCall writes zeros at any address.
func ZeroCall(a planning.Arch, dst uint64, bytes int64) planning.Call {
	c := planning.Call{Kernel: "ga_zero", Grid: gridFor(a, bytes/16+1, supportThreads), Block: planning.Dim3{X: supportThreads}}
	c.Args.Pointer(dst).Int64(bytes)
	return c
}

// PackedLDB returns the row distance of packed weights in elements: K, rounded up to 16 bytes.
func PackedLDB(d kernels.DType, k int) int {
	step := 16 / d.Size()
	return planning.DivideUp(k, step) * step
}

// PackCall packs the raw weights of the normalized p to dst: N rows of K elements, [PackedLDB] apart, zeros
// in between.
func PackCall(a planning.Arch, p kernels.Task, raw, dst uint64) planning.Call {
	size, ldb := int64(p.DType.Size()), PackedLDB(p.DType, p.K)
	if p.Layout == kernels.Transposed {
		return RealignCall(a, raw, dst, int64(p.N), int64(p.K)*size, int64(p.LDB)*size, int64(ldb)*size)
	}
	c := planning.Call{
		Kernel: fmt.Sprintf("ga_transpose_%d", size),
		Grid:   planning.Dim3{X: planning.DivideUp(ldb, transposeTile) * planning.DivideUp(p.N, transposeTile)},
		Block:  planning.Dim3{X: supportThreads},
	}
	c.Args.Pointer(raw).Pointer(dst).Int64(int64(p.K)).Int64(int64(p.N)).Int64(int64(p.LDB)).Int64(int64(ldb))
	return c
}

// RealignCall copies rows of colsBytes bytes from any address and distance to rows at multiples of 16 bytes:
// dst and dstLdBytes must be such multiples. Zeros fill the rest of each row.
func RealignCall(a planning.Arch, src, dst uint64, rows, colsBytes, srcLdBytes, dstLdBytes int64) planning.Call {
	// Threads along a row, 16 bytes each; the others of a block take further rows.
	x := 4
	for x < supportThreads && int64(x)*16 < dstLdBytes {
		x *= 2
	}
	y := supportThreads / x
	columns := (dstLdBytes + int64(x)*16 - 1) / (int64(x) * 16)
	blocksY := min((rows+int64(y)-1)/int64(y), max(1, int64(a.SMs)*16/columns), 65535)
	c := planning.Call{Kernel: "ga_realign", Grid: planning.Dim3{X: int(columns), Y: int(blocksY)}, Block: planning.Dim3{X: x, Y: y}}
	c.Args.Pointer(src).Pointer(dst).Int64(rows).Int64(colsBytes).Int64(srcLdBytes).Int64(dstLdBytes)
	return c
}

// Times of a stamp. The hold exceeds the time to start a block on every multiprocessor. The limit exceeds a
// tick of the wall clock, which can be a microsecond.
const (
	stampHoldCycles  = 4000
	stampLimitCycles = 20000
)

// StampCall stamps every multiprocessor. out holds slots stamps by multiprocessor number, four uint64 each:
// its clock at entry, then the clock and the wall clock in ns at the same moment, and 1. Clear it before to
// see which were stamped.
func StampCall(a planning.Arch, out uint64, slots int) planning.Call {
	c := planning.Call{Kernel: "ga_stamp", Grid: planning.Dim3{X: a.SMs}, Block: planning.Dim3{X: 1}, Shared: a.SharedMax}
	c.Args.Pointer(out).Int32(slots, stampHoldCycles, stampLimitCycles)
	return c
}

// BlockingCall holds back its stream until the int32 at flag, host memory mapped to the device, reaches
// ticket, or until timeoutNs have passed. out receives two uint64: 1 if it timed out, and the ns waited.
func BlockingCall(flag uint64, ticket int32, timeoutNs int64, out uint64) planning.Call {
	c := planning.Call{Kernel: "ga_gate", Grid: planning.Dim3{X: 1}, Block: planning.Dim3{X: 1}}
	c.Args.Pointer(flag).Pointer(out).Int64(timeoutNs).Int32(int(ticket))
	return c
}

// ReadCall reads bytes/16 vectors at src, 16-byte aligned. sink holds 4 bytes.
func ReadCall(a planning.Arch, src uint64, bytes int64, sink uint64) planning.Call {
	c := planning.Call{Kernel: "ga_read", Grid: planning.Dim3{X: a.SMs * 4}, Block: planning.Dim3{X: readThreads}}
	c.Args.Pointer(src).Int64(bytes / 16).Pointer(sink)
	return c
}

// Bytes in flight of ga_read_bulk on each multiprocessor.
const (
	bulkBytes  = 8192
	bulkStages = 24
)

// ReadBulkCall is [ReadCall] through bulk copies; ok is false if the GPU lacks them.
func ReadBulkCall(a planning.Arch, src uint64, bytes int64, sink uint64) (c planning.Call, ok bool) {
	shared := bulkStages * (bulkBytes + 8)
	if a.CC < 90 || shared > a.SharedMax {
		return planning.Call{}, false
	}
	c = planning.Call{Kernel: "ga_read_bulk", Grid: planning.Dim3{X: a.SMs}, Block: planning.Dim3{X: 32}, Shared: shared}
	c.Args.Pointer(src).Int64(bytes / 16).Pointer(sink)
	return c, true
}

// CopyCall copies bytes/16 vectors; both addresses are 16-byte aligned.
func CopyCall(a planning.Arch, src, dst uint64, bytes int64) planning.Call {
	c := planning.Call{Kernel: "ga_copy", Grid: planning.Dim3{X: a.SMs * 4}, Block: planning.Dim3{X: readThreads}}
	c.Args.Pointer(src).Pointer(dst).Int64(bytes / 16)
	return c
}
