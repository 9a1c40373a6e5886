package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
)

// CheckStep is one thing that the correctness gate looks at.
type CheckStep string

// The checks, in the order in which a kernel meets them. The first that fails
// ends the correctness check.
const (
	// CheckPadding: nothing was written outside C: not between N and ldc, not
	// before the offset, not after the last row.
	CheckPadding CheckStep = "padding"
	// CheckUnwritten: every element of C was written, and none was read first
	// (C begins as NaN, so C·0 shows as well).
	CheckUnwritten CheckStep = "unwritten"
	// CheckOverRead: nothing beside A and B took part; what lies beside them is
	// NaN. For int8 there is no NaN: 127 lies there, and the sums come out wrong.
	CheckOverRead CheckStep = "over-read"
	// CheckIntegers: on whole numbers in [-4,4] every sum is exact in the
	// accumulator, so C is the correctly rounded sum, bit for bit.
	CheckIntegers CheckStep = "integers"
	// CheckAccuracy: on N(0,1) every element is within the bound of [ErrorBound];
	// int8 must be exact.
	CheckAccuracy CheckStep = "accuracy"
	// CheckExtremes: int8 only: on -128, -127 and 127 no intermediate sum saturates.
	CheckExtremes CheckStep = "extremes"
	// CheckOneSign: int8 only, from K 1041 on: products of one sign, whose sum passes 2^24 and is odd
	// half of the time, are not rounded to fp32 on the way.
	CheckOneSign CheckStep = "one sign"
	// CheckNonFinite: a NaN of A or B makes its row or column of C NaN, an infinity makes it what
	// IEEE 754 says, and no other element feels it.
	CheckNonFinite CheckStep = "infinities and NaN"
	// CheckOverflow: what the output type does not hold becomes an infinity, and sums that leave
	// its range on the way and come back are finite.
	CheckOverflow CheckStep = "overflow"
	// CheckSubnormals: subnormal operands count as what they are or, in fp32, tf32 and bf16, as zero.
	CheckSubnormals CheckStep = "subnormals"
	// CheckInputs: A and B are as they were.
	CheckInputs CheckStep = "inputs"
	// CheckRepeat: a second run gave the same bits.
	CheckRepeat CheckStep = "repeat"
)

// CheckError says how a kernel failed the correctness check.
type CheckError struct {
	Device  string
	Kernel  string
	Problem Problem
	Weights WeightFormat // of quantised weights, zero for plain ones
	// Products is how many a batch has, 0 where no batch was computed; Product is the one
	// that is wrong, from 0.
	Products, Product int
	Check             CheckStep
	// Row and Col are the first element of C that is wrong; they may lie outside
	// of C for CheckPadding (Row is -1 before it, M or more after it). For
	// CheckInputs they point into the operand that Detail names.
	Row, Col int
	// Got and Want are values of elements (Want is 0 for CheckPadding,
	// CheckUnwritten and CheckOverRead), Bound the error that was allowed.
	Got, Want, Bound float64
	// Wrong is how many elements failed the check.
	Wrong int
	// Detail says in words what Got and Want can't.
	Detail string
}

func (e *CheckError) Error() string {
	var size fmt.Stringer = e.Problem.Shape
	product := ""
	if e.Products > 0 {
		size = Batch{Problem: e.Problem, Products: e.Products}
		product = fmt.Sprintf("product %d, ", e.Product)
	}
	if e.Weights != (WeightFormat{}) {
		size = QuantisedProblem{e.Problem, e.Weights}
	}
	s := fmt.Sprintf("check: %s/%s/%s/%v (lda %d ldb %d ldc %d, B %s): %s: %selement (%d,%d) is %g",
		e.Device, e.Kernel, e.Problem.DType, size, e.Problem.LDA, e.Problem.LDB, e.Problem.LDC,
		e.Problem.BLayout, e.Check, product, e.Row, e.Col, e.Got)
	switch e.Check {
	case CheckPadding, CheckUnwritten, CheckOverRead:
	default:
		s += fmt.Sprintf(", expected %g", e.Want)
	}
	if e.Bound > 0 {
		s += fmt.Sprintf(" ± %.3g", e.Bound)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Wrong > 1 {
		s += fmt.Sprintf(" (%d elements)", e.Wrong)
	}
	return s
}

// ErrorConstant is c of [ErrorBound]. Under the model of independent, mean-zero
// rounding errors (Higham and Mary, "A new approach to probabilistic rounding
// error analysis", 2019) a sum of K products stays within λ·√K·u·Σ|a||b| except
// with probability 2·exp(-λ²/2) a rounding; λ = 6 makes that 3e-8. Measured
// errors of sound kernels use about a tenth of it, since operands of mean zero
// keep the partial sums near √K where the bound allows K; that also leaves room
// for accumulators that truncate, as tensor cores do.
const ErrorConstant = 6

// ErrorBound is the largest error that the correctness check accepts of an output whose exact
// value is ref and whose terms' magnitudes sum up to magnitude = Σ|a||b|:
//
//	u_out·|ref| + c·√K·u_acc·magnitude + η_out/2 + K·2^-126
//
// The first term is the rounding to the output type, the second that of the
// accumulator. Products need no term: those of fp16, bf16, tf32 and fp8 are exact
// in fp32, and those of fp32 round once, by FMA together with the sum. The third
// is half the smallest step of the output type, to which small outputs round
// (2^-25 for fp16). The fourth is for kernels that take subnormal products and sums for zero, as
// dot instructions of bf16 (VDPBF16PS, TDPBF16PS) do.
//
// Those take subnormal operands for zero as well, whose products with large operands are no
// small numbers: no bound covers that. What a kernel does with them is a property of it that
// the correctness check measures, see [CheckSubnormals] and [Subnormals]. The bound holds for the operands as
// the kernel takes them.
//
// u_acc is that of the accumulator's type but for fp8, where it is [FP8Accumulator].
func ErrorBound(p Problem, ref, magnitude float64) float64 {
	if p.DType == INT8 {
		return 0
	}
	out := p.DType.Output()
	k := float64(p.K)
	return out.UnitRoundoff()*math.Abs(ref) + ErrorConstant*math.Sqrt(k)*accumulatorRoundoff(p.DType)*magnitude +
		smallestStep(out)/2 + k*0x1p-126
}

// FP8Accumulator is the unit roundoff of sums of fp8 products. Tensor cores align what
// one instruction adds to the largest of it and cut off what lies 14 bits lower, so that
// sums in fp32 registers are not sums in fp32. Measured on an H200, with one instruction
// as with hundreds, errors use up to 44 times the bound of an fp32 accumulator (K 64;
// 10 times at K 14336): adding up in fp32 registers every few instructions does not
// help, and libraries don't, where they are asked for speed. Small whole numbers remain
// exact.
const FP8Accumulator = 1.0 / (1 << 18)

func accumulatorRoundoff(d DType) float64 {
	if d == FP8 {
		return FP8Accumulator
	}
	return d.Accumulator().UnitRoundoff()
}

// smallestStep is the distance between neighbouring subnormals.
func smallestStep(d DType) float64 {
	switch d {
	case FP16:
		return 0x1p-24
	case BF16:
		return 0x1p-133
	}
	return 0x1p-149
}

// CheckGemm runs p on g with every check and returns nil, a [*CheckError], an
// [*Unsupported] where the kernel refuses the problem, or the device's error. It
// uses nothing but the interfaces of this package, so it serves every device.
func CheckGemm(ctx context.Context, d Device, g Gemm, p Problem, seed uint64) error {
	_, err := CheckMargin(ctx, d, g, p, seed)
	return err
}

// CheckMargin is [CheckGemm] that tells also how much of the accumulator's part of the
// bound was used: the largest (|err| - u_out·|ref|) ÷ (bound - u_out·|ref|) over
// the elements, 0 to 1, 0 for int8. The rounding to the output is left out since a
// correct kernel uses all of it.
func CheckMargin(ctx context.Context, d Device, g Gemm, p Problem, seed uint64) (float64, error) {
	c, err := NewGemmCheck(p, seed)
	if err != nil {
		return 0, err
	}
	return c.Margin(ctx, d, g)
}

// GateBatch is [CheckMargin] of a batch, whose strides must be whole rows. Where they leave
// a gap between products, poison lies in it.
func GateBatch(ctx context.Context, d Device, g Batcher, b Batch, seed uint64) (float64, error) {
	c, err := NewBatchCheck(b, seed)
	if err != nil {
		return 0, err
	}
	return c.Margin(ctx, d, g)
}

// CheckSummary is what [CheckKernel] found.
type CheckSummary struct {
	Passed int // problems, batches and problems with quantised weights
	// Skipped are problems that the kernel refuses, with its reason.
	Skipped []error
	// Margin is the largest of [CheckMargin].
	Margin float64
	// Subnormals is what the kernel makes of subnormal operands, empty where it was not looked at.
	Subnormals Subnormals
	// Rows is what [RowBitsOf] found, where that was asked.
	Rows RowBits
}

// CheckKernel runs the standing tables of type dt on g, those of batches where g is a [Batcher]
// and those of quantised weights where it is a [QuantisedGemm], and ends at the first failure. A kernel that refuses all of it has Passed 0
// and no error.
func CheckKernel(ctx context.Context, d Device, g Gemm, dt DType, seed uint64) (CheckSummary, error) {
	summaries, errs := CheckKernels(ctx, d, []Gemm{g}, dt, seed)
	return summaries[0], errs[0]
}

// CheckKernels is [CheckKernel] of several kernels, which have the operands and references in common.
// Each has its summary and its error, at which it ends and the others go on.
func CheckKernels(ctx context.Context, d Device, gs []Gemm, dt DType, seed uint64) ([]CheckSummary, []error) {
	summaries, errs := make([]CheckSummary, len(gs)), make([]error, len(gs))
	run := func(c *GemmCheck, err error, takes func(Gemm) bool) {
		for i, g := range gs {
			if errs[i] != nil || !takes(g) {
				continue
			}
			var found CheckResult
			problem := err
			if problem == nil {
				found, problem = c.Run(ctx, d, g)
			}
			errs[i] = summaries[i].add(ctx, found.Margin, problem)
			summaries[i].Subnormals = summaries[i].Subnormals.and(found.Subnormals)
		}
	}
	special := func(c *GemmCheck, err error) (*GemmCheck, error) {
		if err != nil || dt == INT8 {
			return c, err
		}
		return c.Special(), nil
	}
	every := func(Gemm) bool { return true }
	for _, p := range CheckProblems(dt) {
		c, err := NewGemmCheck(p, seed)
		run(c, err, every)
	}
	for _, p := range SpecialProblems(dt) {
		c, err := special(NewGemmCheck(p, seed))
		run(c, err, every)
	}
	batches := func(g Gemm) bool { _, ok := g.(Batcher); return ok }
	for _, b := range GateBatches(dt) {
		c, err := NewBatchCheck(b, seed)
		run(c, err, batches)
	}
	for _, b := range SpecialBatches(dt) {
		c, err := special(NewBatchCheck(b, seed))
		run(c, err, batches)
	}
	quantised := func(g Gemm) bool { _, ok := g.(QuantisedGemm); return ok }
	for _, q := range QuantisedCheckProblems(dt) {
		c, err := NewQuantisedCheck(q, seed)
		run(c, err, quantised)
	}
	for _, q := range SpecialQuantised(dt) {
		c, err := special(NewQuantisedCheck(q, seed))
		run(c, err, quantised)
	}
	return summaries, errs
}

// add counts what became of a problem, and returns the error that ends the correctness check.
func (s *CheckSummary) add(ctx context.Context, margin float64, err error) error {
	var unsupported *Unsupported
	switch {
	case errors.As(err, &unsupported):
		s.Skipped = append(s.Skipped, err)
	case err != nil:
		return err
	default:
		s.Passed++
		s.Margin = max(s.Margin, margin)
	}
	return ctx.Err()
}

// CheckProblems is the standing table of problems for type d: products smaller than
// every tile, tails of M, N and K around the widths of vectors and tiles, both
// layouts of B, tight and loose leading dimensions, one and all threads, packing
// ahead and inside, and one product of many tiles.
func CheckProblems(d DType) []Problem {
	var out []Problem
	add := func(m, n, k int, change func(*Problem)) {
		p := Problem{Shape: Shape{M: m, N: n, K: k}, DType: d}
		if change != nil {
			change(&p)
		}
		out = append(out, p)
	}
	loose := func(a, b, c int) func(*Problem) {
		return func(p *Problem) {
			p.LDA, p.LDB, p.LDC = p.K+a, p.N+b, p.N+c
		}
	}
	transposed := func(a, b, c int) func(*Problem) {
		return func(p *Problem) {
			p.BLayout, p.LDA, p.LDB, p.LDC = Transposed, p.K+a, p.K+b, p.N+c
		}
	}
	one := func(p *Problem) { p.Threads = 1 }
	inside := func(p *Problem) { p.PackInside = true }
	insideTransposed := func(p *Problem) { p.PackInside, p.BLayout = true, Transposed }

	// Smaller than a tile in every direction; K around groups of 2 and 4.
	add(1, 1, 1, nil)
	add(1, 1, 1, loose(3, 5, 7))
	add(2, 3, 2, transposed(1, 2, 3))
	add(3, 2, 3, loose(0, 1, 0))
	add(1, 5, 4, insideTransposed)
	add(5, 7, 5, inside)
	// M = 1: decode. Wide, deep, and with tails.
	add(1, 256, 256, nil)
	add(1, 517, 259, loose(5, 3, 1))
	add(1, 130, 1031, transposed(0, 0, 0))
	add(1, 1031, 67, one)
	// Tails of M around register tiles of 4 to 32 rows.
	for _, m := range []int{2, 4, 6, 7, 8, 13, 15, 16, 17, 24, 31, 32, 33, 48} {
		add(m, 64, 64, nil)
		add(m, 65, 63, transposed(1, 0, 2))
	}
	// Tails of N around vectors of 8 to 64.
	for _, n := range []int{1, 2, 8, 15, 16, 17, 31, 32, 33, 47, 63, 80, 95, 97, 127, 129} {
		add(18, n, 37, loose(2, 1, 3))
	}
	// Tails of K around groups of 2, 4, 32 and 64.
	for _, k := range []int{1, 2, 3, 6, 7, 8, 15, 31, 32, 33, 62, 65, 66, 127, 128, 131} {
		add(19, 34, k, transposed(3, 1, 0))
	}
	// The strides of aligned and of power-of-two matrices.
	add(64, 96, 128, nil)
	add(64, 96, 128, transposed(0, 0, 0))
	add(32, 64, 256, loose(256, 192, 64))
	add(32, 64, 256, func(p *Problem) { p.Threads, p.PackInside = 1, true })
	// More than one block of K, then of N, then of M; then all at once.
	add(7, 48, 2051, nil)
	add(9, 2053, 40, insideTransposed)
	add(1027, 33, 35, loose(0, 0, 1))
	add(131, 259, 517, transposed(7, 9, 5))
	add(261, 389, 770, loose(3, 2, 1))
	return out
}

// firstDifference is the first byte in which two equally long slices differ, or -1.
func firstDifference(got, want []byte) int {
	if bytes.Equal(got, want) {
		return -1
	}
	for i := range want {
		if got[i] != want[i] {
			return i
		}
	}
	return len(want)
}
