package cuda

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// The launches of support.cu, which says what each does and expects.

const (
	supportThreads = 256 // of a block, but for the readers'
	readThreads    = 512
	transposeTile  = 64
)

// gridFor is a grid of blocks of threads threads: one thread an item, but no more than
// fill the GPU a few times over, since every kernel of support.cu loops.
func gridFor(a arch, items int64, threads int) dim3 {
	blocks := (items + int64(threads) - 1) / int64(threads)
	return dim3{x: int(max(1, min(blocks, int64(a.sms)*16)))}
}

// The codes of enum FillDType and FillDistribution in fill.cuh.
var (
	fillDTypes = map[kernels.DType]int{
		kernels.FP32: 0, kernels.TF32: 1, kernels.FP16: 2, kernels.BF16: 3, kernels.FP8: 4, kernels.INT8: 5,
	}
	fillDistributions = map[kernels.Distribution]int{kernels.Normal: 0, kernels.Integers: 1}
)

// fillCall writes n elements of type d from a distribution at dst, a multiple of 4;
// the bits are those of the CPU's buffers for the same seed. tf32 is fp32 rounded to
// its 10 bits, as [kernels.Encode] has it.
func fillCall(a arch, dst uint64, n int64, d kernels.DType, dist kernels.Distribution, seed uint64) (call, error) {
	code, ok := fillDTypes[d]
	if !ok {
		return call{}, fmt.Errorf("fill buffer: unknown dtype %q", d)
	}
	if dist == kernels.Zeros {
		return zeroCall(a, dst, n*int64(d.Size())), nil
	}
	distribution, ok := fillDistributions[dist]
	if !ok {
		return call{}, fmt.Errorf("fill buffer: unknown distribution %q: expected normal, integers or zeros", dist)
	}
	c := call{kernel: "ga_fill", grid: gridFor(a, n*int64(d.Size())/4+1, supportThreads), block: dim3{x: supportThreads}}
	c.args.pointer(dst).int64(n).int64(int64(seed)).int32(code, distribution)
	return c, nil
}

// zeroCall writes zeros at any address.
func zeroCall(a arch, dst uint64, bytes int64) call {
	c := call{kernel: "ga_zero", grid: gridFor(a, bytes/16+1, supportThreads), block: dim3{x: supportThreads}}
	c.args.pointer(dst).int64(bytes)
	return c
}

// packedLDB is the row distance of packed weights in elements: K, rounded up to 16 bytes.
func packedLDB(d kernels.DType, k int) int {
	step := 16 / d.Size()
	return divideUp(k, step) * step
}

// packCall brings raw weights, stored as the normalized p says, into the packed form at
// dst: N rows of K elements, [packedLDB] apart, zeros in between.
func packCall(a arch, p kernels.Problem, raw, dst uint64) call {
	size, ldb := int64(p.DType.Size()), packedLDB(p.DType, p.K)
	if p.BLayout == kernels.Transposed {
		return realignCall(a, raw, dst, int64(p.N), int64(p.K)*size, int64(p.LDB)*size, int64(ldb)*size)
	}
	c := call{
		kernel: fmt.Sprintf("ga_transpose_%d", size),
		grid:   dim3{x: divideUp(ldb, transposeTile) * divideUp(p.N, transposeTile)},
		block:  dim3{x: supportThreads},
	}
	c.args.pointer(raw).pointer(dst).int64(int64(p.K)).int64(int64(p.N)).int64(int64(p.LDB)).int64(int64(ldb))
	return c
}

// realignCall copies rows of colsBytes bytes from any address and distance to rows that
// begin at multiples of 16 bytes: dst and dstLdBytes are such multiples. Zeros fill the
// rest of each row.
func realignCall(a arch, src, dst uint64, rows, colsBytes, srcLdBytes, dstLdBytes int64) call {
	// Threads along a row, 16 bytes each; the others of a block take further rows.
	x := 4
	for x < supportThreads && int64(x)*16 < dstLdBytes {
		x *= 2
	}
	y := supportThreads / x
	columns := (dstLdBytes + int64(x)*16 - 1) / (int64(x) * 16)
	blocksY := min((rows+int64(y)-1)/int64(y), max(1, int64(a.sms)*16/columns), 65535)
	c := call{kernel: "ga_realign", grid: dim3{x: int(columns), y: int(blocksY)}, block: dim3{x: x, y: y}}
	c.args.pointer(src).pointer(dst).int64(rows).int64(colsBytes).int64(srcLdBytes).int64(dstLdBytes)
	return c
}

// How long a stamp takes. The hold is longer than it takes to start a block on every
// multiprocessor; the limit is longer than a tick of the wall clock, a microsecond
// where it is coarse.
const (
	stampHoldCycles  = 4000
	stampLimitCycles = 20000
)

// stampCall stamps every multiprocessor; out holds slots stamps by number of the
// multiprocessor, four uint64 each: its clock at entry, the clock and the wall clock in
// ns at one moment right after, and 1. Clear it before, to see which were stamped.
func stampCall(a arch, out uint64, slots int) call {
	c := call{kernel: "ga_stamp", grid: dim3{x: a.sms}, block: dim3{x: 1}, shared: a.sharedMax}
	c.args.pointer(out).int32(slots, stampHoldCycles, stampLimitCycles)
	return c
}

// gateCall holds back its stream until the int32 at flag, host memory mapped to the
// device, has come to ticket, or until timeoutNs have passed. out takes two uint64: 1
// when it timed out, and the ns waited.
func gateCall(flag uint64, ticket int32, timeoutNs int64, out uint64) call {
	c := call{kernel: "ga_gate", grid: dim3{x: 1}, block: dim3{x: 1}}
	c.args.pointer(flag).pointer(out).int64(timeoutNs).int32(int(ticket))
	return c
}

// readCall reads bytes/16 vectors at src, 16-byte aligned. sink holds 4 bytes.
func readCall(a arch, src uint64, bytes int64, sink uint64) call {
	c := call{kernel: "ga_read", grid: dim3{x: a.sms * 4}, block: dim3{x: readThreads}}
	c.args.pointer(src).int64(bytes / 16).pointer(sink)
	return c
}

// What ga_read_bulk keeps in flight on each multiprocessor.
const (
	bulkBytes  = 8192
	bulkStages = 24
)

// readBulkCall is [readCall] through bulk copies; ok is false where there are none.
func readBulkCall(a arch, src uint64, bytes int64, sink uint64) (c call, ok bool) {
	shared := bulkStages * (bulkBytes + 8)
	if a.cc < 90 || shared > a.sharedMax {
		return call{}, false
	}
	c = call{kernel: "ga_read_bulk", grid: dim3{x: a.sms}, block: dim3{x: 32}, shared: shared}
	c.args.pointer(src).int64(bytes / 16).pointer(sink)
	return c, true
}

// copyCall copies bytes/16 vectors; both addresses are 16-byte aligned.
func copyCall(a arch, src, dst uint64, bytes int64) call {
	c := call{kernel: "ga_copy", grid: dim3{x: a.sms * 4}, block: dim3{x: readThreads}}
	c.args.pointer(src).pointer(dst).int64(bytes / 16)
	return c
}
