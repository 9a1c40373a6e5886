package kernels

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
)

// CheckStep is one step of the correctness check.
type CheckStep string

// The steps in the order that a kernel meets them. The first failure ends the check.
const (
	// CheckPadding: nothing is written outside C: between N and ldc, before the offset, or after the last
	// row.
	CheckPadding CheckStep = "padding"
	// CheckUnwritten: every element of C is written and not read first. C begins as NaN, so C·0 shows as
	// well.
	CheckUnwritten CheckStep = "unwritten"
	// CheckOverRead: memory outside A and B does not affect C; it is filled with NaN, for int8 with 127.
	CheckOverRead CheckStep = "over-read"
	// CheckIntegers: with whole numbers in [-4,4] every sum is exact in the accumulator, so C must be the
	// correctly rounded sum.
	CheckIntegers CheckStep = "integers"
	// CheckAccuracy: with N(0,1) operands every element is within [ErrorBound]; int8 must be exact.
	CheckAccuracy CheckStep = "accuracy"
	// CheckExtremes, int8 only: with -128, -127 and 127 no intermediate sum saturates.
	CheckExtremes CheckStep = "extremes"
	// CheckOneSign, int8 from K 1041 on: sums of one sign exceed 2^24, half of them odd. They must not
	// be rounded to fp32. With scaled activations from K 7168 on: sums of one sign must not stay in tensor cores.
	CheckOneSign CheckStep = "one sign"
	// CheckNonFinite: a NaN in A or B makes its row or column of C NaN, an infinity follows IEEE 754, and
	// other elements are unaffected.
	CheckNonFinite CheckStep = "infinities and NaN"
	// CheckOverflow: values beyond the output type become infinities. Sums that leave its range and return
	// are finite.
	CheckOverflow CheckStep = "overflow"
	// CheckSubnormals: subnormal operands keep their value or, in fp32, tf32 and bf16, count as zero.
	CheckSubnormals CheckStep = "subnormals"
	// CheckInputs: A and B are unchanged.
	CheckInputs CheckStep = "inputs"
	// CheckRepeat: a second run returns the same bits.
	CheckRepeat CheckStep = "repeat"
	// CheckReplay, only of kernels that implement [Recorder]: launches that were recorded with other operands compute with
	// those of the replay, each for itself, and write every element.
	CheckReplay CheckStep = "replay"
)

// CheckError reports how a kernel failed the correctness check.
type CheckError struct {
	Device  string
	Kernel  string
	Task    Task
	Product int // index of the wrong product of a batch
	Check   CheckStep
	// Row and Col locate the first wrong element of C. For CheckPadding they may lie outside C (Row -1 before
	// it, M or more after it). For CheckInputs they index the operand in Detail.
	Row, Col int
	// Got and Want are element values; Want is 0 for CheckPadding, CheckUnwritten and CheckOverRead. Bound is
	// the allowed error.
	Got, Want, Bound float64
	// Wrong is the number of wrong elements.
	Wrong int
	// Detail adds what Got and Want can't show.
	Detail string
}

// WrongResult is the error of a kernel that computed something else than the reference, of any operation.
type WrongResult interface {
	error
	// WrongResult marks the error.
	WrongResult()
}

// WrongResult implements [WrongResult].
func (*CheckError) WrongResult() {}

func (e *CheckError) Error() string {
	t, product := e.Task, ""
	if t.Products > 0 {
		product = fmt.Sprintf("product %d, ", e.Product)
	}
	s := fmt.Sprintf("check: %s/%s/%s/%v (lda %d ldb %d ldc %d, B %s): %s: %selement (%d,%d) is %g",
		e.Device, e.Kernel, t.DType, t, t.LDA, t.LDB, t.LDC, t.Layout, e.Check, product, e.Row, e.Col, e.Got)
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

// ErrorConstant is c of [ErrorBound]. For independent, mean-zero rounding errors (Higham and Mary, "A new
// approach to probabilistic rounding error analysis", 2019) a sum of K products exceeds λ·√K·u·Σ|a||b| with
// probability at most 2·exp(-λ²/2) per rounding; λ = 6 gives 3e-8. Correct kernels use about a tenth of it:
// with mean-zero operands partial sums stay near √K. The rest allows for tensor cores' truncating
// accumulators.
const ErrorConstant = 6

// ErrorBound returns the largest error accepted for an output with exact value ref and magnitude = Σ|a||b|:
//
//	u_out·|ref| + c·√K·u_acc·magnitude + η_out/2 + K·2^-126
//
// The first term is the rounding to the output type, the second the accumulator's. Products need no term:
// fp16, bf16, tf32 and fp8 products are exact in fp32, and fp32 products round once with the sum (FMA). The
// third term is half the smallest step of the output type (2^-25 for fp16). The fourth allows kernels to
// flush subnormal products and sums to zero, as bf16 dot instructions (VDPBF16PS, TDPBF16PS) do.
//
// Those also flush subnormal operands, whose products with large operands are not small, so no bound covers
// them. [CheckSubnormals] measures this; the bound applies to the operands as the kernel reads them.
//
// u_acc is the accumulator type's unit roundoff, for fp8 [FP8Accumulator].
func ErrorBound(t Task, ref, magnitude float64) float64 {
	if t.DType == INT8 {
		return 0
	}
	out := t.DType.Output()
	k := float64(t.K)
	return out.UnitRoundoff()*math.Abs(ref) + ErrorConstant*math.Sqrt(k)*accumulatorRoundoff(t.DType)*magnitude +
		smallestStep(out)/2 + k*0x1p-126
}

// FP8Accumulator is the unit roundoff of sums of fp8 products. Tensor cores align an instruction's terms to
// the largest and truncate 14 bits below it, so sums in fp32 registers are less accurate than fp32. Measured
// on an H200, errors reach 44 times the fp32 bound (K 64; 10 times at K 14336). Adding in fp32 registers
// every few instructions does not help. Sums of small integers stay exact.
const FP8Accumulator = 1.0 / (1 << 18)

func accumulatorRoundoff(d DType) float64 {
	if d == FP8 {
		return FP8Accumulator
	}
	return d.Accumulator().UnitRoundoff()
}

func smallestStep(d DType) float64 {
	switch d {
	case FP16:
		return 0x1p-24
	case BF16:
		return 0x1p-133
	}
	return 0x1p-149
}

// CheckGemm runs every check of a product's task on k. The error is a [*CheckError], an [*Unsupported] if the
// kernel refuses the task, or the device's. It works with any [Device].
func CheckGemm(ctx context.Context, d Device, k Kernel, t Task, seed uint64) error {
	_, err := CheckMargin(ctx, d, k, t, seed)
	return err
}

// CheckMargin is [CheckGemm] and returns the largest used share of the accumulator's bound: (|err| -
// u_out·|ref|) ÷ (bound - u_out·|ref|), 0 to 1, 0 for int8. The output rounding is excluded because correct
// kernels use all of it. Strides of a batch must be whole rows; gaps between products hold invalid values. The
// reference multiplies quantized weights as the kernel reads them, rounding included: see
// [QuantizedMatrix.Values] and [SumScaler].
func CheckMargin(ctx context.Context, d Device, k Kernel, t Task, seed uint64) (float64, error) {
	c, err := NewGemmCheck(t, seed)
	if err != nil {
		return 0, err
	}
	return c.Margin(ctx, d, k)
}

// CheckSummary is the result of [CheckKernel].
type CheckSummary struct {
	Passed int // tasks
	// Skipped are the kernel's reasons for refused tasks.
	Skipped []error
	// Margin is the largest [CheckMargin].
	Margin float64
	// Subnormals is how the kernel treats subnormal operands, empty if not checked.
	Subnormals Subnormals
	// HalfSums is the type that partial sums may have been rounded to, empty if the bound allowed none: see
	// [HalfSumBound].
	HalfSums DType
	// Rounded: the bound allowed activations rounded to 8 bits, see [RoundedBound].
	Rounded bool
	// Rows is the result of [RowBitsOf], if requested.
	Rows RowBits
}

// CheckKernel runs the standard tasks of products of type dt on k: single products, batches, and products with
// quantized weights. It stops at the first failure. If the kernel refuses all, Passed is 0 and the error is
// nil.
func CheckKernel(ctx context.Context, d Device, k Kernel, dt DType, seed uint64) (CheckSummary, error) {
	summaries, errs := CheckKernels(ctx, d, []Kernel{k}, dt, seed)
	return summaries[0], errs[0]
}

// CheckKernels is [CheckKernel] for several kernels that share operands and references. Each has its own
// summary and error; one failure does not stop the others.
func CheckKernels(ctx context.Context, d Device, ks []Kernel, dt DType, seed uint64) ([]CheckSummary, []error) {
	summaries, errs := make([]CheckSummary, len(ks)), make([]error, len(ks))
	run := func(tasks []Task, special bool) {
		for _, t := range tasks {
			c, err := NewGemmCheck(t, seed)
			if err == nil && special && dt != INT8 {
				c = c.Special()
			}
			for i, k := range ks {
				if errs[i] != nil {
					continue
				}
				var found CheckResult
				failed := err
				if failed == nil {
					found, failed = c.Run(ctx, d, k)
				}
				errs[i] = summaries[i].add(ctx, found.Margin, failed)
				summaries[i].Subnormals = summaries[i].Subnormals.and(found.Subnormals)
				summaries[i].HalfSums = cmp.Or(summaries[i].HalfSums, found.HalfSums)
				summaries[i].Rounded = summaries[i].Rounded || found.Rounded
			}
		}
	}
	run(CheckProblems(dt), false)
	run(SpecialProblems(dt), true)
	run(GateBatches(dt), false)
	run(SpecialBatches(dt), true)
	run(QuantizedCheckProblems(dt), false)
	run(SpecialQuantized(dt), true)
	return summaries, errs
}

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

// CheckProblems returns the standard problems for type d: products smaller than any tile, tails of M, N and
// K, both layouts of B, tight and padded leading dimensions, one and all threads, B packed ahead and inside,
// and one product of many tiles.
func CheckProblems(d DType) []Task {
	var out []Task
	add := func(m, n, k int, change func(*Task)) {
		p := Task{Subject: Product(d, n, k), M: m}
		if change != nil {
			change(&p)
		}
		out = append(out, p)
	}
	loose := func(a, b, c int) func(*Task) {
		return func(p *Task) {
			p.LDA, p.LDB, p.LDC = p.K+a, p.N+b, p.N+c
		}
	}
	transposed := func(a, b, c int) func(*Task) {
		return func(p *Task) {
			p.Layout, p.LDA, p.LDB, p.LDC = Transposed, p.K+a, p.K+b, p.N+c
		}
	}
	one := func(p *Task) { p.Threads = 1 }
	inside := func(p *Task) { p.PackInside = true }
	insideTransposed := func(p *Task) { p.PackInside, p.Layout = true, Transposed }

	add(1, 1, 1, nil)
	add(1, 1, 1, loose(3, 5, 7))
	add(2, 3, 2, transposed(1, 2, 3))
	add(3, 2, 3, loose(0, 1, 0))
	add(1, 5, 4, insideTransposed)
	add(5, 7, 5, inside)
	// M = 1 (decode): wide, deep, and with tails.
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
	// The strides of aligned and power-of-two matrices.
	add(64, 96, 128, nil)
	add(64, 96, 128, transposed(0, 0, 0))
	add(32, 64, 256, loose(256, 192, 64))
	add(32, 64, 256, func(p *Task) { p.Threads, p.PackInside = 1, true })
	// More than one block of K, then N, then M, then all.
	add(7, 48, 2051, nil)
	add(9, 2053, 40, insideTransposed)
	add(1027, 33, 35, loose(0, 0, 1))
	add(131, 259, 517, transposed(7, 9, 5))
	add(261, 389, 770, loose(3, 2, 1))
	return out
}

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
