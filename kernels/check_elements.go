package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
)

// ElementError reports how a kernel failed the check of an operation that is not a product.
type ElementError struct {
	Device string
	Kernel string
	Task   Task
	// Data is the kind of a softmax's operands: normal, peaked, level or special; empty otherwise.
	Data  string
	Check CheckStep
	// Row and Column locate the first wrong element. For CheckPadding the row may lie outside the problem.
	Row, Column int
	// Bound is the allowed error.
	Got, Want, Bound float64
	// Wrong is the number of wrong elements.
	Wrong int
	// Detail adds what Got and Want can't show.
	Detail string
}

// WrongResult implements [WrongResult].
func (*ElementError) WrongResult() {}

func (e *ElementError) Error() string {
	s := fmt.Sprintf("%s: %s: element (%d,%d) is %g", where(e.Device, e.Kernel, e.Task, e.Data), e.Check, e.Row, e.Column, e.Got)
	if e.Check == CheckAccuracy || e.Check == CheckReplay {
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

// where names a task of a kernel in the errors of its check.
func where(device, kernel string, t Task, data string) string {
	s := fmt.Sprintf("check: %s/%s: %v", device, kernel, t)
	if data != "" {
		s += fmt.Sprintf(" scale %g, %s rows", t.Scale, data)
	}
	return s
}

// elementCase is a task's operands and exact output.
type elementCase struct {
	data        string // see [ElementError.Data]
	in          []byte // with its guards
	stored      []byte // nil if nothing is stored
	want, bound []float64
	operands    [2][]float64 // in and stored, of the check by a reference
}

// elementRun is one kernel on the cases of a task. Its buffers and launch serve all cases.
type elementRun struct {
	device          Device
	kernel          Kernel
	t               Task
	outType         DType // of the output
	of              elementCase
	in, stored, out Operand
	weights         Weights
	launch          Launch
	margin          float64
	results         [][]byte // of all executions
	after           []byte
	held            []Buffer
}

// runElements executes a kernel runs times on each case, and stops at the first failure. blank is the output buffer
// before a run. margin is the largest used share of the bound, without the output's rounding.
func runElements(
	ctx context.Context, d Device, k Kernel, t Task, cases []elementCase, blank []byte, runs int,
) (margin float64, err error) {
	r := &elementRun{device: d, kernel: k, t: t, outType: t.OutputType()}
	defer func() { err = errors.Join(err, r.close()) }()
	for range runs {
		r.results = append(r.results, make([]byte, len(blank)))
	}
	for _, of := range cases {
		r.of, r.after = of, make([]byte, len(of.in))
		if err := r.run(ctx, blank); err != nil {
			return r.margin, err
		}
	}
	return r.margin, nil
}

func (r *elementRun) close() error {
	var errs []error
	if r.weights != nil {
		errs = append(errs, r.weights.Close())
	}
	for at := len(r.held) - 1; at >= 0; at-- {
		errs = append(errs, r.held[at].Close())
	}
	return errors.Join(errs...)
}

// fill uploads content to a buffer, allocating it if nil.
func (r *elementRun) fill(b *Buffer, content []byte) (err error) {
	if *b == nil {
		if *b, err = r.device.Alloc(int64(len(content))); err != nil {
			return err
		}
		r.held = append(r.held, *b)
	}
	return (*b).Upload(0, content)
}

// guardOf is the number of invalid elements before and after an operand: at least a row, and enough to
// align the operand like a user's allocation.
func guardOf(columns int) int {
	return (guardRows(columns)*columns + checkGuard - 1) / checkGuard * checkGuard
}

// guarded returns n elements of poison, with guards for rows of so many columns.
func guarded(poison []byte, n, columns int) []byte { return bytes.Repeat(poison, n+2*guardOf(columns)) }

// bind prepares and binds the kernel at the first case.
func (r *elementRun) bind() (err error) {
	if r.launch != nil {
		return nil
	}
	r.in.Offset, r.out.Offset = guardOf(int(r.t.InputElements(1))), guardOf(int(r.t.OutputElements(1)))
	if r.weights, err = r.kernel.Prepare(r.t, r.stored.Buffer); err != nil {
		return err
	}
	r.launch, err = r.kernel.Bind(r.t, r.in, r.weights, r.out)
	return err
}

func (r *elementRun) run(ctx context.Context, blank []byte) error {
	fail := func(err error) error {
		return fmt.Errorf("%s: %w", where(r.device.Spec().ID, r.kernel.Name(), r.t, r.of.data), err)
	}
	err := errors.Join(r.fill(&r.in.Buffer, r.of.in), r.fill(&r.out.Buffer, blank))
	if err == nil && r.of.stored != nil {
		err = r.fill(&r.stored.Buffer, r.of.stored)
	}
	if err == nil {
		err = r.bind()
	}
	if err != nil {
		return fail(err)
	}
	for i, result := range r.results {
		if i > 0 {
			if err := r.out.Buffer.Upload(0, blank); err != nil {
				return fail(err)
			}
		}
		if _, err := r.device.Execute(ctx, []Launch{r.launch}, 1); err != nil {
			return fail(err)
		}
		if err := r.out.Buffer.Download(0, result); err != nil {
			return fail(err)
		}
	}
	first, last := r.results[0], r.results[len(r.results)-1]
	if err := r.checkWritten(first, blank, r.out.Offset); err != nil {
		return err
	}
	if err := r.checkValues(first, r.out.Offset); err != nil {
		return err
	}
	if err := r.in.Buffer.Download(0, r.after); err != nil {
		return fail(err)
	}
	if at := firstDifference(r.after, r.of.in); at >= 0 {
		e := r.element(CheckInputs, at/r.t.DType.Size()-r.in.Offset, int(r.t.InputElements(1)), r.t.DType, r.after)
		e.Detail = "the operand was written to"
		return e
	}
	if at := firstDifference(last, first); at >= 0 {
		e := r.output(CheckRepeat, at/r.outType.Size()-r.out.Offset, last)
		e.Detail = fmt.Sprintf("the first run gave %g", valueAt(r.outType, first, at))
		return e
	}
	return nil
}

// checkWritten finds writes outside the output and missing writes inside it.
func (r *elementRun) checkWritten(got, blank []byte, guard int) error {
	size, n := r.outType.Size(), len(r.of.want)
	w := written{got: got, poison: blank[:size], from: guard * size, to: (guard + n) * size}
	if at, wrong := w.outside(); wrong > 0 {
		failure := r.output(CheckPadding, at/size-guard, got)
		failure.Detail, failure.Wrong = writtenOutside, wrong
		return failure
	}
	if at, wrong := w.unwritten(); wrong > 0 {
		failure := r.output(CheckUnwritten, at/size-guard, got)
		failure.Detail, failure.Wrong = notWritten, wrong
		return failure
	}
	return nil
}

// checkValues compares the output with the reference concurrently in parts.
func (r *elementRun) checkValues(got []byte, guard int) error {
	type part struct {
		margin       float64
		first, wrong int
		err          error
	}
	const least = 1 << 14
	n, size := len(r.of.want), r.outType.Size()
	share := max(least, (n+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	parts := make([]part, (n+share-1)/share)
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() {
			from, to := i*share, min(n, (i+1)*share)
			values := make([]float64, to-from)
			p := &parts[i]
			if p.err = Decode(r.outType, got[(guard+from)*size:][:len(values)*size], values); p.err != nil {
				return
			}
			p.margin, p.first, p.wrong = judgeElements(r.outType, values, r.of.want[from:to], r.of.bound[from:to])
			p.first += from
		})
	}
	wg.Wait()
	var failure *ElementError
	for _, p := range parts {
		if p.err != nil {
			return p.err
		}
		r.margin = max(r.margin, p.margin)
		if p.wrong == 0 {
			continue
		}
		if failure == nil {
			failure = r.output(CheckAccuracy, p.first, got)
			failure.Want, failure.Bound = r.of.want[p.first], r.of.bound[p.first]
			if math.IsNaN(failure.Got) {
				failure.Detail = "what is masked, or memory outside the operand, took part, or the arithmetic overflowed"
			}
		}
		failure.Wrong += p.wrong
	}
	if failure != nil {
		return failure
	}
	return nil
}

// judgeElements returns the largest used share of the bound, the first wrong element, and the number of wrong
// elements.
func judgeElements(d DType, values, ref, bound []float64) (margin float64, first, wrong int) {
	unit, least := d.UnitRoundoff(), smallestStep(d)/2
	for i, v := range values {
		if v == ref[i] || math.IsNaN(v) && math.IsNaN(ref[i]) {
			continue
		}
		// Logarithms beyond the type's range are infinite.
		if math.IsInf(v, -1) && !math.IsInf(ref[i], 0) && v == roundTo(d, ref[i]-bound[i]) {
			continue
		}
		if diff := math.Abs(v - ref[i]); diff <= bound[i] {
			rounding := max(unit*math.Abs(ref[i]), least)
			if room := bound[i] - rounding; room > 0 {
				margin = max(margin, (diff-rounding)/room)
			}
			continue
		}
		if wrong == 0 {
			first = i
		}
		wrong++
	}
	return margin, first, wrong
}

// element is the failure at an element of the output, or of the input for [CheckInputs].
func (r *elementRun) element(check CheckStep, at, columns int, d DType, got []byte) *ElementError {
	row := int(math.Floor(float64(at) / float64(columns)))
	return &ElementError{
		Device: r.device.Spec().ID, Kernel: r.kernel.Name(), Task: r.t, Data: r.of.data, Check: check,
		Row: row, Column: at - row*columns, Got: valueAt(d, got, (at+guardOf(columns))*d.Size()),
	}
}

// output is the failure at an element of the output.
func (r *elementRun) output(check CheckStep, at int, got []byte) *ElementError {
	return r.element(check, at, int(r.t.OutputElements(1)), r.outType, got)
}
