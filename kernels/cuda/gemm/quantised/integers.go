package quantised

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Problem is a normalized product with quantised weights, and how its operands lie.
type Problem struct {
	gemm.Problem
	Weights kernels.WeightFormat
}

// quantised is the problem without what is said of its operands.
func (p Problem) quantised() kernels.QuantisedProblem {
	return kernels.QuantisedProblem{Problem: p.Problem.Problem, Weights: p.Weights}
}

// Family is that of kernels with quantised weights. Addresses.B is that of their records.
type Family = planning.Family[Problem, gemm.Addresses]

// Integers is kernels for weights of some bits: w4a16.cu and w8a16.cu, and for few rows of A
// w4a16_narrow.cu, w4a16_resident.cu and their like, on compute capability 9.0; w4a16_mma.cu and
// w8a16_mma.cu on others from 8.0 on.
type Integers struct{ Bits int }

// Families are the kernels of ours for quantised weights.
var Families = []Integers{{4}, {8}}

// Name is the name by which the kernel is selected.
func (f Integers) Name() string { return fmt.Sprintf("w%da16", f.Bits) }

// Describe is one line for people.
func (f Integers) Describe(a planning.Arch) string {
	how, count := "mma.sync, with cp.async stages", len(mmaTiles)
	if byWgmma(a) {
		how, count = "wgmma, with bulk copies, or of mma.sync where rows are few", len(tiles)+len(narrowTiles)+len(residentTiles)
	}
	return fmt.Sprintf("weights of %d bits with scales, packed ahead, made operands of %s; persistent grid, stream-K, %d tiles", f.Bits, how, count)
}

// byWgmma says which kernels a GPU runs.
func byWgmma(a planning.Arch) bool { return a.CC == 90 }

// Supports returns why p can't run on a, empty when it can.
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
	return planning.SizeReason(p.Problem.Problem, 8, support.RecordRows)
}

// way is one way to compute a product.
type way interface {
	seconds(a planning.Arch, p Problem) float64
	plan(a planning.Arch, p Problem) gemm.Plan
}

// realigned completes a plan by the copy of A that a kernel needs whose rows of A begin at multiples of
// 16 bytes, and by its launch, which call makes of where its operands then are.
func realigned(plan gemm.Plan, a planning.Arch, p Problem, call func(p Problem, at gemm.Addresses, lda int) planning.Call) gemm.Plan {
	rows := gemm.Realign(p.Problem.Problem, p.Aligned.A < 16)
	plan.Seconds += rows.Seconds(a)
	plan.Scratch += rows.Copied
	plan.Bind = func(at gemm.Addresses) []planning.Call {
		calls, lda := rows.Calls(a, &at)
		return append(calls, call(p, at, lda))
	}
	return plan
}

// inParts adds to a label among how many blocks K is cut.
func inParts(label string, parts int) string {
	if parts == 1 {
		return label
	}
	return fmt.Sprintf("%s parts %d", label, parts)
}

// ways are those that may be best for p.
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

// Plan takes the least expected time.
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

// decoding is a product that a family supports wherever it supports any.
func (f Integers) decoding() Problem {
	weights, err := kernels.Quantisation{Bits: f.Bits, Group: support.RecordK}.Format(kernels.FP16, 4096)
	if err != nil {
		return Problem{} // which no family supports
	}
	return Problem{gemm.Problem{Problem: kernels.Problem{Shape: kernels.Shape{M: 1, N: 4096, K: 4096}, DType: kernels.FP16}}, weights}
}
