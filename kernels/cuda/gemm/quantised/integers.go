package quantised

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Problem is a normalized product with quantized weights, and the alignment of its operands.
type Problem = gemm.Problem

// Integers are kernels for weights of 4 or 8 bits. On compute capability 9.0 they are w4a16.cu and w8a16.cu,
// and for few rows of A w4a16_narrow.cu, w4a16_resident.cu and their 8-bit versions. On others from 8.0 they
// are w4a16_mma.cu and w8a16_mma.cu. [gemm.Addresses].B is the address of the records.
type Integers struct{ Bits int }

// Families are our kernels for quantized weights.
func Families() []gemm.Family { return []gemm.Family{Integers{4}, Integers{8}} }

// Name implements [planning.Family].
func (f Integers) Name() string { return fmt.Sprintf("w%da16", f.Bits) }

// Describe implements [planning.Family].
func (f Integers) Describe(a planning.Arch) string {
	how, count := "mma.sync, with cp.async stages", len(mmaTiles)
	if byWgmma(a) {
		how, count = "wgmma, with bulk copies, or of mma.sync where rows are few", len(tiles)+len(narrowTiles)+len(residentTiles)
	}
	return fmt.Sprintf("weights of %d bits with scales, packed ahead, made operands of %s; persistent grid, stream-K, %d tiles", f.Bits,
		how, count)
}

func byWgmma(a planning.Arch) bool { return a.CC == 90 }

// Supports implements [planning.Family].
func (f Integers) Supports(a planning.Arch, p Problem) string {
	switch {
	case a.CC < 80:
		return fmt.Sprintf("mma.sync in this form needs compute capability 8.0, this GPU has %d.%d", a.CC/10, a.CC%10)
	case p.DType != kernels.FP16 && p.DType != kernels.BF16:
		return fmt.Sprintf("activations are fp16 or bf16, not %s", p.DType)
	case p.Weights.Bits != f.Bits:
		return fmt.Sprintf("weights have %d bits, not %d", f.Bits, p.Weights.Bits)
	case p.Weights.Scale != p.DType:
		return fmt.Sprintf("scales are of the activations' type, %s, not %s", p.DType, p.Weights.Scale)
	case support.RecordGroup(p.Weights.GroupK, p.K) == 0:
		return fmt.Sprintf("groups are 32, 64, multiples of %d or whole columns, not %d", support.RecordK, p.Weights.GroupK)
	case p.LDA > planning.LargestExtent || p.LDC > planning.LargestExtent:
		return fmt.Sprintf("a leading dimension is beyond %d", planning.LargestExtent)
	}
	return planning.SizeReason(p.Task, 8, support.RecordRows)
}

type way interface {
	seconds(a planning.Arch, p Problem) float64
	plan(a planning.Arch, p Problem) gemm.Plan
}

// realigned adds to a plan the copy of A for kernels that need rows at multiples of 16 bytes, and the launch,
// which call makes from the operands' final addresses.
func realigned(plan gemm.Plan, a planning.Arch, p Problem, call func(p Problem, at gemm.Addresses, lda int) planning.Call) gemm.Plan {
	rows := gemm.Realign(p.Task, p.Aligned.A < 16)
	plan.Seconds += rows.Seconds(a)
	plan.Scratch += rows.Copied
	plan.Bind = func(at gemm.Addresses) []planning.Call {
		calls, lda := rows.Calls(a, &at)
		return append(calls, call(p, at, lda))
	}
	return plan
}

// partsPlan is the plan of rowBlocks clusters, whose blocks divide K into parts.
func partsPlan(a planning.Arch, label string, seconds float64, rowBlocks, parts int) gemm.Plan {
	slots := max(1, a.SMs/parts)
	return gemm.Plan{Label: label, Slots: slots, Seconds: seconds, Tiling: kernels.Tiling{
		Waves: float64(rowBlocks) / float64(slots), Split: parts, Orientation: kernels.OrientationTransposed}}
}

func partsCall(kernel string, shared, threads, rowBlocks, parts int) planning.Call {
	k := planning.Call{Kernel: kernel, Shared: shared, Overlap: true,
		Grid: planning.Dim3{X: rowBlocks, Y: parts}, Block: planning.Dim3{X: threads}}
	if parts > 1 {
		k.Cluster = planning.Dim3{X: 1, Y: parts}
	}
	return k
}

func inParts(label string, parts int) string {
	if parts == 1 {
		return label
	}
	return fmt.Sprintf("%s parts %d", label, parts)
}

func ways(a planning.Arch, p Problem) []way {
	var all []way
	for _, c := range choices(a, p) {
		all = append(all, c)
	}
	for _, n := range narrows(a, p) {
		all = append(all, n)
	}
	for _, r := range residents(a, p) {
		all = append(all, r)
	}
	return all
}

// Plan returns the plan with the least expected time.
func (f Integers) Plan(a planning.Arch, p Problem) gemm.Plan {
	var best way
	seconds := math.Inf(1)
	for _, w := range ways(a, p) {
		if this := w.seconds(a, p); this < seconds {
			best, seconds = w, this
		}
	}
	return best.plan(a, p)
}

// Candidates implements [planning.Chooser].
func (f Integers) Candidates(a planning.Arch, p Problem) []gemm.Plan {
	var plans []gemm.Plan
	for _, w := range ways(a, p) {
		plans = append(plans, w.plan(a, p))
	}
	return plans
}
