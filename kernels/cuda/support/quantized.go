package support

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// The size of a record of quantized weights; see quantised_weights.cuh.
const (
	RecordRows = 128 // of weights
	RecordK    = 128
)

// RecordGroup returns the weights along K per scale in a record, for weights in groups of `group` among k; 0
// if records don't support such groups.
func RecordGroup(group, k int) int {
	switch {
	case group == 32 || group == 64:
		return group
	case group%RecordK == 0 || group == k:
		return RecordK
	}
	return 0
}

// RecordBytes returns the size of a record in a format that [RecordGroup] supports.
func RecordBytes(f kernels.WeightFormat, k int) int {
	scales := RecordRows * RecordK / RecordGroup(f.GroupK, k) * f.Scale.Size()
	if f.ZeroPoint != "" {
		scales *= 2
	}
	return RecordRows*RecordK*f.Bits/8 + scales
}

// Records returns the number of records along K and along N.
func Records(n, k int) (alongK, alongN int) {
	return planning.DivideUp(k, RecordK), planning.DivideUp(n, RecordRows)
}

// RecordsBytes returns the size of all records of a normalized problem's weights.
func RecordsBytes(q kernels.Task) int64 {
	alongK, alongN := Records(q.N, q.K)
	return int64(alongK) * int64(alongN) * int64(RecordBytes(q.Weights, q.K))
}

// RecordsCall packs raw weights of a normalized problem into records at dst; records of the same rows are
// consecutive along K.
func RecordsCall(a planning.Arch, q kernels.Task, raw, dst uint64) planning.Call {
	alongK, _ := Records(q.N, q.K)
	return rawCall(a, "ga_quantised_pack", q, raw, dst, RecordsBytes(q)/4, alongK, RecordGroup(q.Weights.GroupK, q.K))
}

// PlainBytes returns the size of a normalized problem's weights as plain elements: N rows, [PackedLDB] apart.
func PlainBytes(q kernels.Task) int64 {
	return int64(q.N) * int64(PackedLDB(q.DType, q.K)) * int64(q.DType.Size())
}

// PlainCall dequantizes raw weights of a normalized problem, whose scales are of the activations' type, with
// zeros after each row.
func PlainCall(a planning.Arch, q kernels.Task, raw, dst uint64) planning.Call {
	return rawCall(a, "ga_quantised_plain", q, raw, dst, PlainBytes(q)/16, PackedLDB(q.DType, q.K)/8, 0)
}

func rawCall(a planning.Arch, kernel string, q kernels.Task, raw, dst uint64, count int64, steps, packedGroup int) planning.Call {
	at := q.Raw()
	zeros := uint64(0)
	if at.Zeros > 0 {
		zeros = raw + uint64(at.Zeros)
	}
	c := planning.Call{Kernel: kernel, Grid: gridFor(a, count, supportThreads), Block: planning.Dim3{X: supportThreads}}
	c.Args.Pointer(raw).Pointer(raw + uint64(at.Scales)).Pointer(zeros).Pointer(dst).Int64(count)
	c.Args.Int32(q.N, q.K, q.Weights.GroupK, q.Weights.Bits, planning.OneIf(q.Weights.Scale == kernels.BF16), steps, packedGroup)
	c.Args.Align(8)
	return c
}
