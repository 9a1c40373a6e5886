package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// SoftmaxError says how a softmax failed its correctness check.
type SoftmaxError struct {
	Device  string
	Kernel  string
	Problem SoftmaxProblem
	// Data is the kind of operands: normal, peaked, level or special.
	Data  string
	Check CheckStep
	// Row and Column are of the first element that is wrong; a row outside of the
	// problem's for CheckPadding.
	Row, Column int
	// Got and Want are its values, Bound the error that was allowed.
	Got, Want, Bound float64
	// Wrong is how many elements failed the check.
	Wrong int
	// Detail says in words what Got and Want can't.
	Detail string
}

func (e *SoftmaxError) Error() string {
	s := fmt.Sprintf("check: %s/%s: %v scale %g, %s rows: %s: element (%d,%d) is %g",
		e.Device, e.Kernel, e.Problem, e.Problem.Scale, e.Data, e.Check, e.Row, e.Column, e.Got)
	if e.Check == CheckAccuracy {
		s += fmt.Sprintf(", expected %g ± %.3g", e.Want, e.Bound)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Wrong > 1 {
		s += fmt.Sprintf(" (%d elements)", e.Wrong)
	}
	return s
}

// SoftmaxGate runs a problem on k and compares every element with a float64 reference, within
// the bound of its type (see softmaxBound), on normal, peaked and level rows and on rows with infinities
// and NaN. What is masked is NaN, and so is what lies beside the operand. It also checks
// that nothing else was written, that the operand is as it was, and that a second run
// gives the same bits. margin is how much of the bound, less the rounding to the output type,
// was used, 0 to 1. The error is a [*SoftmaxError], an [*Unsupported] where the kernel refuses the
// problem, one that names a field of p, or the device's. Operands that p has are not used.
func SoftmaxGate(ctx context.Context, d Device, k SoftmaxKernel, p SoftmaxProblem, seed uint64) (margin float64, err error) {
	margins, errs := softmaxGates(ctx, d, []SoftmaxKernel{k}, p, seed)
	return margins[0], errs[0]
}

// softmaxGates is [SoftmaxGate] of several kernels, which have the operands and references in
// common. Each has its margin and its error, at which it ends and the others go on.
func softmaxGates(ctx context.Context, d Device, ks []SoftmaxKernel, p SoftmaxProblem, seed uint64) ([]float64, []error) {
	margins, errs := make([]float64, len(ks)), make([]error, len(ks))
	p, err := p.Normalized()
	for i, k := range ks {
		if errs[i] = err; err == nil {
			errs[i] = k.Supports(p)
		}
	}
	for _, data := range softmaxKinds {
		if !slices.Contains(errs, nil) {
			break
		}
		x := softmaxOperand(p, data, seed)
		ref, bound := softmaxOf(p, x)
		for i, k := range ks {
			if errs[i] != nil {
				continue
			}
			r := &softmaxRun{device: d, kernel: k, p: p, data: data}
			errs[i] = r.run(ctx, x, ref, bound)
			for at := len(r.held) - 1; at >= 0; at-- {
				errs[i] = errors.Join(errs[i], r.held[at].Close())
			}
			margins[i] = max(margins[i], r.margin)
		}
	}
	return margins, errs
}

// CheckSoftmax runs the standing table of type dt, see [SoftmaxProblems], on k and ends at
// the first failure. A kernel that refuses all of it, and a type that softmax is not defined for, have Passed 0
// and no error.
func CheckSoftmax(ctx context.Context, d Device, k SoftmaxKernel, dt DType, seed uint64) (CheckSummary, error) {
	summaries, errs := CheckSoftmaxes(ctx, d, []SoftmaxKernel{k}, dt, seed)
	return summaries[0], errs[0]
}

// CheckSoftmaxes is [CheckSoftmax] of several kernels, which have the operands and references in
// common. Each has its summary and its error, at which it ends and the others go on.
func CheckSoftmaxes(ctx context.Context, d Device, ks []SoftmaxKernel, dt DType, seed uint64) ([]CheckSummary, []error) {
	summaries, errs := make([]CheckSummary, len(ks)), make([]error, len(ks))
	if dt != FP32 && dt != FP16 && dt != BF16 {
		for i, k := range ks {
			summaries[i].Skipped = []error{&Unsupported{Kernel: k.Name(), DType: dt, Reason: "softmax has operands of fp32, fp16 and bf16"}}
		}
		return summaries, errs
	}
	for _, p := range SoftmaxProblems(dt) {
		var going []int
		var of []SoftmaxKernel
		for i, k := range ks {
			if errs[i] == nil {
				going, of = append(going, i), append(of, k)
			}
		}
		margins, problems := softmaxGates(ctx, d, of, p, seed)
		for at, i := range going {
			errs[i] = summaries[i].add(ctx, margins[at], problems[at])
		}
	}
	return summaries, errs
}

// SoftmaxProblems is the standing table of softmax and its logarithm for a type: one column to
// many, counts around the widths of vectors, warps and blocks, one row and many, scales, and
// causal masks with whole sequences and parts of one.
func SoftmaxProblems(d DType) []SoftmaxProblem {
	var out []SoftmaxProblem
	add := func(rows, columns, queries int, scale float32) {
		out = append(out, SoftmaxProblem{Rows: rows, Columns: columns, DType: d, Scale: scale, Queries: queries, Log: len(out)%2 == 1})
	}
	both := func(rows, columns, queries int, scale float32) {
		add(rows, columns, queries, scale)
		add(rows, columns, queries, scale)
	}
	// Rows shorter than a vector, side by side.
	for columns := 1; columns <= 9; columns++ {
		both(67, columns, 0, 1)
	}
	both(1, 1, 0, 1)
	both(1000, 3, 0, 0.125)
	both(4099, 16, 0, 1)
	// Around vectors and warps.
	for _, columns := range []int{15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 96, 127, 128, 129, 255, 256, 257, 384} {
		both(37, columns, 0, 1)
	}
	both(515, 100, 0, 0.25)
	// What a warp or a block keeps, and one more or less.
	for _, columns := range []int{511, 512, 513, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 3072} {
		both(13, columns, 0, 1)
	}
	for _, columns := range []int{4095, 4096, 4097, 5000, 8192, 8193, 12288, 16384, 16385} {
		both(3, columns, 0, 1)
	}
	both(8, 4096, 0, 3)
	// Longer than shared memory or a cache, in few rows.
	add(3, 24576, 0, 1)
	add(1, 32768, 0, 0.5)
	add(3, 32771, 0, 1)
	add(1, 65536, 0, 1)
	add(1, 65537, 0, 1)
	add(1, 131072, 0, 1)
	add(2, 131075, 0, 0.125)
	add(1, 262144, 0, 1)
	// Causal masks: squares, a part of a sequence behind whole ones, more columns than queries,
	// one query, and rows whose whole length is one element.
	for _, m := range []struct{ rows, columns, queries int }{
		{1, 1, 1}, {5, 5, 5}, {48, 16, 16}, {70, 33, 33}, {96, 64, 32}, {130, 100, 100}, {131, 128, 128},
		{9, 300, 1}, {40, 257, 7}, {70, 512, 64}, {60, 1024, 1024}, {33, 1030, 1000}, {8, 5000, 3}, {3, 20000, 20000}, {2, 70000, 1},
	} {
		both(m.rows, m.columns, m.queries, 0.125)
	}
	return out
}

// softmaxRun is one kind of operands of one problem.
type softmaxRun struct {
	device Device
	kernel SoftmaxKernel
	p      SoftmaxProblem
	data   softmaxData
	margin float64
	held   []Buffer
}

func (r *softmaxRun) upload(content []byte) (Buffer, error) {
	b, err := r.device.Alloc(int64(len(content)))
	if err != nil {
		return nil, err
	}
	r.held = append(r.held, b)
	return b, b.Upload(0, content)
}

// run uploads the operand, executes softmax twice and judges it.
func (r *softmaxRun) run(ctx context.Context, x, ref, bound []float64) error {
	p := r.p
	fail := func(err error) error {
		return fmt.Errorf("check: %s/%s: %v, %s rows: %w", r.device.Spec().ID, r.kernel.Name(), p, r.data, err)
	}
	guard, size := guardRows(p.Columns)*p.Columns, p.DType.Size()
	in := bytes.Repeat(inputPoison(p.DType), len(x)+2*guard)
	if err := Encode(p.DType, x, in[guard*size:][:len(x)*size]); err != nil {
		return fail(err)
	}
	blank := bytes.Repeat(outputPoison(p.DType), len(x)+2*guard)
	var err error
	if p.In.Buffer, err = r.upload(in); err != nil {
		return fail(err)
	}
	if p.Out.Buffer, err = r.upload(blank); err != nil {
		return fail(err)
	}
	p.In.Offset, p.Out.Offset = guard, guard
	launch, err := r.kernel.Bind(p)
	if err != nil {
		return fail(err)
	}
	var results [2][]byte
	for i := range results {
		if err := p.Out.Buffer.Upload(0, blank); err != nil {
			return fail(err)
		}
		if _, err := r.device.Execute(ctx, []Launch{launch}, 1); err != nil {
			return fail(err)
		}
		results[i] = make([]byte, len(blank))
		if err := p.Out.Buffer.Download(0, results[i]); err != nil {
			return fail(err)
		}
	}
	if err := r.checkWritten(results[0], blank, guard); err != nil {
		return err
	}
	if err := r.checkValues(results[0], ref, bound, guard); err != nil {
		return err
	}
	after := make([]byte, len(in))
	if err := p.In.Buffer.Download(0, after); err != nil {
		return fail(err)
	}
	if at := firstDifference(after, in); at >= 0 {
		e := r.element(CheckInputs, at/size-guard, after)
		e.Detail = "the operand was written to"
		return e
	}
	if at := firstDifference(results[1], results[0]); at >= 0 {
		e := r.element(CheckRepeat, at/size-guard, results[1])
		e.Detail = fmt.Sprintf("the first run gave %g", valueAt(p.DType, results[0], at))
		return e
	}
	return nil
}

// checkWritten finds what was written outside of the output and what was not written
// inside of it.
func (r *softmaxRun) checkWritten(got, blank []byte, guard int) error {
	size, n := r.p.DType.Size(), r.p.Rows*r.p.Columns
	for _, inside := range []bool{false, true} {
		var failure *SoftmaxError
		before, behind := guard*size, (guard+n)*size
		if !inside && bytes.Equal(got[:before], blank[:before]) && bytes.Equal(got[behind:], blank[behind:]) {
			continue
		}
		for at := -guard; at < n+guard; at++ {
			bytesAt := (at + guard) * size
			same := bytes.Equal(got[bytesAt:][:size], blank[bytesAt:][:size])
			if inside != (at >= 0 && at < n) || inside != same {
				continue
			}
			if failure == nil && inside {
				failure = r.element(CheckUnwritten, at, got)
				failure.Detail = "it was not written"
			} else if failure == nil {
				failure = r.element(CheckPadding, at, got)
				failure.Detail = "written outside of the output"
			}
			failure.Wrong++
		}
		if failure != nil {
			return failure
		}
	}
	return nil
}

// checkValues compares the output with the reference.
func (r *softmaxRun) checkValues(got []byte, ref, bound []float64, guard int) error {
	values := make([]float64, len(ref))
	if err := Decode(r.p.DType, got[guard*r.p.DType.Size():], values); err != nil {
		return err
	}
	var failure *SoftmaxError
	for i, v := range values {
		if v == ref[i] || math.IsNaN(v) && math.IsNaN(ref[i]) {
			continue
		}
		rounding := max(r.p.DType.UnitRoundoff()*math.Abs(ref[i]), smallestStep(r.p.DType)/2)
		if diff := math.Abs(v - ref[i]); diff <= bound[i] {
			r.margin = max(r.margin, (diff-rounding)/(bound[i]-rounding))
			continue
		}
		if failure == nil {
			failure = r.element(CheckAccuracy, i, got)
			failure.Want, failure.Bound = ref[i], bound[i]
			if math.IsNaN(v) {
				failure.Detail = "what is masked, or memory outside the operand, took part, or the arithmetic overflowed"
			}
		}
		failure.Wrong++
	}
	if failure != nil {
		return failure
	}
	return nil
}

// element is a failure at an element of the output, counted from its first.
func (r *softmaxRun) element(check CheckStep, at int, got []byte) *SoftmaxError {
	p := r.p
	p.In, p.Out = Operand{}, Operand{}
	row := int(math.Floor(float64(at) / float64(p.Columns)))
	guard := guardRows(p.Columns) * p.Columns
	return &SoftmaxError{
		Device: r.device.Spec().ID, Kernel: r.kernel.Name(), Problem: p, Data: string(r.data), Check: check,
		Row: row, Column: at - row*p.Columns, Got: valueAt(p.DType, got, (at+guard)*p.DType.Size()),
	}
}
