package decoder

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// The layout of fused_quantised.cu, as it has it.
const (
	quantisedWarps  = 16
	quantisedRows   = 16 // of weights that a block takes at a time
	quantisedBatch  = 8  // times so many rows whose sums it keeps
	quantisedSums   = quantisedBatch * quantisedRows * quantisedWarps * 4
	quantisedBlocks = 2 // on a multiprocessor
)

// quantisedStages is how many steps of so many bytes a warp's ring holds.
func quantisedStages(bits, bytes int) int {
	switch {
	case bits == 8:
		return 2
	case bytes > 1024+128:
		return 3
	}
	return 4
}

// quantisedLDB is the length of the row in shared memory: whole steps.
func quantisedLDB(p kernels.FusedProduct) int {
	steps, _ := support.Records(p.N, p.K)
	return steps * support.RecordK
}

// quantisedShared is the shared memory of fused_quantised.cu for weights of format f: the rings, of
// which a stage has an eighth of a record, the row and the sums.
func quantisedShared(p kernels.FusedProduct, f kernels.WeightFormat) int {
	stage := support.RecordBytes(f, p.K) / (support.RecordRows / quantisedRows)
	return quantisedWarps*quantisedStages(f.Bits, stage)*stage + quantisedLDB(p)*p.DType.Size() + quantisedSums + quantisedWarps*4 + quantisedBatch*quantisedRows*4
}

// quantisedReason is why a GPU can't run p with weights of format f, in records, in one launch;
// empty when it can.
func quantisedReason(a planning.Arch, p kernels.FusedProduct, f kernels.WeightFormat) string {
	switch {
	case a.CC != 90:
		return fmt.Sprintf("fused products with weights %v need compute capability 9.0, this GPU has %d.%d", f, a.CC/10, a.CC%10)
	case p.DType != f.Scale:
		return fmt.Sprintf("fused products with weights %v are of %s, not %s", f, f.Scale, p.DType)
	case support.RecordGroup(f.GroupK, p.K) == 0:
		return fmt.Sprintf("fused products have groups that records hold, not %d", f.GroupK)
	case p.Gated && p.N/2%quantisedRows != 0:
		return fmt.Sprintf("the up rows of a gated unit begin at a multiple of %d, not at %d", quantisedRows, p.N/2)
	}
	if reason := planning.SizeReason(kernels.Problem{Shape: kernels.Shape{M: 1, N: p.N, K: p.K}, DType: p.DType}, 1, support.RecordRows); reason != "" {
		return reason
	}
	if need := quantisedShared(p, f); need > a.SharedMax {
		return fmt.Sprintf("a row of K %d takes %d bytes of shared memory, a block has %d", p.K, need, a.SharedMax)
	}
	return ""
}

// quantisedPlan is the launch of a product that [quantisedReason] has nothing against, and what it
// is called. at.ldb is [quantisedLDB].
func quantisedPlan(a planning.Arch, p kernels.FusedProduct, f kernels.WeightFormat, at fusedAddresses) (c planning.Call, label string) {
	shared := quantisedShared(p, f)
	blocks := max(1, min(quantisedBlocks, (a.SharedMax+1024)/(shared+1024)))
	units := planning.DivideUp(p.N, quantisedRows)
	if p.Gated {
		units /= 2
	}
	zeros := ""
	if f.ZeroPoint != "" {
		zeros = "z"
	}
	c = planning.Call{
		Kernel: fmt.Sprintf("ga_integers_w%d_%s_g%d%s", f.Bits, p.DType, support.RecordGroup(f.GroupK, p.K), zeros),
		Grid:   planning.Dim3{X: min(blocks*a.SMs, units)}, Block: planning.Dim3{X: 32 * quantisedWarps},
		Shared: shared, Overlap: true,
	}
	c.Args = fusedArgs(p, at, ring{})
	return c, fmt.Sprintf("%d blocks of %v", c.Grid.X, f)
}
