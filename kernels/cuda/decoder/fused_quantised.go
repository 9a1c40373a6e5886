package decoder

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Constants of fused_quantised.cu.
const (
	quantizedWarps = 16
	quantizedRows  = 16 // of weights per block at once
	quantizedBatch = 8  // rows whose sums are kept, in units of quantizedRows
	quantizedSums  = quantizedBatch * quantizedRows * quantizedWarps * 4
)

// quantizedBlocks is the number of blocks on a multiprocessor.
const quantizedBlocks = 2

// quantizedRoom is the bytes of the rings, at most.
const quantizedRoom = 72 << 10

// quantizedStage returns the bytes of a warp's step: an eighth of a record.
func quantizedStage(p kernels.FusedProduct, f kernels.WeightFormat) int {
	return support.RecordBytes(f, p.K) / (support.RecordRows / quantizedRows)
}

// quantizedRings returns the bytes of the rings of so many warps, of whole stages, that take at most room.
func quantizedRings(p kernels.FusedProduct, f kernels.WeightFormat, warps, room int) int {
	stages := warps * quantizedStage(p, f)
	return room / stages * stages
}

// quantizedLDB returns the row's length in shared memory, in whole steps.
func quantizedLDB(p kernels.FusedProduct) int {
	steps, _ := support.Records(p.N, p.K)
	return steps * support.RecordK
}

// quantizedShared returns the shared memory of fused_quantised.cu for format f: rings, the row and the sums.
func quantizedShared(p kernels.FusedProduct, f kernels.WeightFormat) int {
	return quantizedRings(p, f, quantizedWarps, quantizedRoom) + quantizedLDB(p)*p.DType.Size() + quantizedSums + quantizedWarps*4 +
		quantizedBatch*quantizedRows*4
}

func quantizedReason(a planning.Arch, p kernels.FusedProduct, f kernels.WeightFormat) string {
	switch {
	case a.CC != 90:
		return fmt.Sprintf("fused products with weights %v need compute capability 9.0, this GPU has %d.%d", f, a.CC/10, a.CC%10)
	case p.DType != f.Scale:
		return fmt.Sprintf("fused products with weights %v are of %s, not %s", f, f.Scale, p.DType)
	case support.RecordGroup(f.GroupK, p.K) == 0:
		return fmt.Sprintf("fused products have groups that records hold, not %d", f.GroupK)
	case p.Gated && p.N/2%quantizedRows != 0:
		return fmt.Sprintf("the up rows of a gated unit begin at a multiple of %d, not at %d", quantizedRows, p.N/2)
	}
	if reason := planning.SizeReason(kernels.Task{Subject: kernels.Product(p.DType, p.N, p.K), M: 1}, 1, support.RecordRows); reason != "" {
		return reason
	}
	if need := quantizedShared(p, f); need > a.SharedMax {
		return fmt.Sprintf("a row of K %d takes %d bytes of shared memory, a block has %d", p.K, need, a.SharedMax)
	}
	return ""
}

// quantizedPlan returns the launch of a product that passes [quantizedReason], and its label. at.ldb is
// [quantizedLDB].
func quantizedPlan(a planning.Arch, p kernels.FusedProduct, f kernels.WeightFormat, at fusedAddresses) (c planning.Call, label string) {
	units := planning.DivideUp(p.N, quantizedRows)
	if p.Gated {
		units /= 2
	}
	c = planning.Call{
		Kernel: "ga_integers_" + quantizedName(p, f),
		Grid:   planning.Dim3{X: min(quantizedResident(a, p, f)*a.SMs, units)}, Block: planning.Dim3{X: 32 * quantizedWarps},
		Shared: quantizedShared(p, f), Overlap: true,
	}
	c.Args = fusedArgs(p, at, ring{})
	return c, fmt.Sprintf("%d blocks of %v", c.Grid.X, f)
}

// quantizedName returns the end of a kernel's name.
func quantizedName(p kernels.FusedProduct, f kernels.WeightFormat) string {
	zeros := ""
	if f.ZeroPoint != "" {
		zeros = "z"
	}
	return fmt.Sprintf("w%d_%s_g%d%s", f.Bits, p.DType, support.RecordGroup(f.GroupK, p.K), zeros)
}

// quantizedResident returns the blocks on a multiprocessor.
func quantizedResident(a planning.Arch, p kernels.FusedProduct, f kernels.WeightFormat) int {
	return max(1, min(quantizedBlocks, (a.SharedMax+1024)/(quantizedShared(p, f)+1024)))
}
