package kernels

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
)

// softmaxRun is the check of one kernel on one problem, at one kind of operands.
type softmaxRun struct {
	device  Device
	kernel  SoftmaxKernel
	p       SoftmaxProblem
	data    softmaxData
	margin  float64
	results [][]byte // of all executions
	after   []byte   // the operand behind them
	launch  Launch
	held    []Buffer
}

// fill uploads content to a buffer, which is made when it is nil.
func (r *softmaxRun) fill(b *Buffer, content []byte) (err error) {
	if *b == nil {
		if *b, err = r.device.Alloc(int64(len(content))); err != nil {
			return err
		}
		r.held = append(r.held, *b)
	}
	return (*b).Upload(0, content)
}

// softmaxGuard is how many poisoned elements stand before and after an operand: a row at least, and so many
// that the operand is aligned as those of users are, who pass what they have allocated.
func softmaxGuard(columns int) int {
	return (guardRows(columns)*columns + checkGuard - 1) / checkGuard * checkGuard
}

// run uploads the operand, executes softmax as often as there are results, and judges them.
func (r *softmaxRun) run(ctx context.Context, kind softmaxKind, blank []byte) error {
	p := &r.p
	fail := func(err error) error {
		return fmt.Errorf("check: %s/%s: %v, %s rows: %w", r.device.Spec().ID, r.kernel.Name(), *p, r.data, err)
	}
	guard, size := softmaxGuard(p.Columns), p.DType.Size()
	if err := r.fill(&p.In.Buffer, kind.in); err != nil {
		return fail(err)
	}
	if err := r.fill(&p.Out.Buffer, blank); err != nil {
		return fail(err)
	}
	p.In.Offset, p.Out.Offset = guard, guard
	if r.launch == nil {
		var err error
		if r.launch, err = r.kernel.Bind(*p); err != nil {
			return fail(err)
		}
	}
	for i, result := range r.results {
		if i > 0 {
			if err := p.Out.Buffer.Upload(0, blank); err != nil {
				return fail(err)
			}
		}
		if _, err := r.device.Execute(ctx, []Launch{r.launch}, 1); err != nil {
			return fail(err)
		}
		if err := p.Out.Buffer.Download(0, result); err != nil {
			return fail(err)
		}
	}
	first, last := r.results[0], r.results[len(r.results)-1]
	if err := r.checkWritten(first, blank, guard); err != nil {
		return err
	}
	if err := r.checkValues(first, kind, guard); err != nil {
		return err
	}
	if err := p.In.Buffer.Download(0, r.after); err != nil {
		return fail(err)
	}
	if at := firstDifference(r.after, kind.in); at >= 0 {
		e := r.element(CheckInputs, at/size-guard, r.after)
		e.Detail = "the operand was written to"
		return e
	}
	if at := firstDifference(last, first); at >= 0 {
		e := r.element(CheckRepeat, at/size-guard, last)
		e.Detail = fmt.Sprintf("the first run gave %g", valueAt(p.DType, first, at))
		return e
	}
	return nil
}

// checkWritten finds what was written outside of the output and what was not written
// inside of it.
func (r *softmaxRun) checkWritten(got, blank []byte, guard int) error {
	size, n := r.p.DType.Size(), r.p.Rows*r.p.Columns
	w := written{got: got, poison: blank[:size], from: guard * size, to: (guard + n) * size}
	if at, wrong := w.outside(); wrong > 0 {
		failure := r.element(CheckPadding, at/size-guard, got)
		failure.Detail, failure.Wrong = writtenOutside, wrong
		return failure
	}
	if at, wrong := w.unwritten(); wrong > 0 {
		failure := r.element(CheckUnwritten, at/size-guard, got)
		failure.Detail, failure.Wrong = notWritten, wrong
		return failure
	}
	return nil
}

// checkValues compares the output with the reference, in parts side by side.
func (r *softmaxRun) checkValues(got []byte, kind softmaxKind, guard int) error {
	type part struct {
		margin       float64
		first, wrong int
		err          error
	}
	const least = 1 << 14 // elements of a part
	n, size := len(kind.ref), r.p.DType.Size()
	share := max(least, (n+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	parts := make([]part, (n+share-1)/share)
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() {
			from, to := i*share, min(n, (i+1)*share)
			values := make([]float64, to-from)
			p := &parts[i]
			if p.err = Decode(r.p.DType, got[(guard+from)*size:][:len(values)*size], values); p.err != nil {
				return
			}
			p.margin, p.first, p.wrong = judgeSoftmax(r.p.DType, values, kind.ref[from:to], kind.bound[from:to])
			p.first += from
		})
	}
	wg.Wait()
	var failure *SoftmaxError
	for _, p := range parts {
		if p.err != nil {
			return p.err
		}
		r.margin = max(r.margin, p.margin)
		if p.wrong == 0 {
			continue
		}
		if failure == nil {
			failure = r.element(CheckAccuracy, p.first, got)
			failure.Want, failure.Bound = kind.ref[p.first], kind.bound[p.first]
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

// judgeSoftmax compares values with their references: how many are further off than their bound,
// the first of them, and how much of the bound the others use.
func judgeSoftmax(d DType, values, ref, bound []float64) (margin float64, first, wrong int) {
	unit, least := d.UnitRoundoff(), smallestStep(d)/2
	for i, v := range values {
		if v == ref[i] || math.IsNaN(v) && math.IsNaN(ref[i]) {
			continue
		}
		// A logarithm that the type does not hold is an infinity.
		if math.IsInf(v, -1) && !math.IsInf(ref[i], 0) && v == roundTo(d, ref[i]-bound[i]) {
			continue
		}
		if diff := math.Abs(v - ref[i]); diff <= bound[i] {
			rounding := max(unit*math.Abs(ref[i]), least)
			margin = max(margin, (diff-rounding)/(bound[i]-rounding))
			continue
		}
		if wrong == 0 {
			first = i
		}
		wrong++
	}
	return margin, first, wrong
}

// element is a failure at an element of the output, counted from its first.
func (r *softmaxRun) element(check CheckStep, at int, got []byte) *SoftmaxError {
	p := r.p
	p.In, p.Out = Operand{}, Operand{}
	row := int(math.Floor(float64(at) / float64(p.Columns)))
	guard := softmaxGuard(p.Columns)
	return &SoftmaxError{
		Device: r.device.Spec().ID, Kernel: r.kernel.Name(), Problem: p, Data: string(r.data), Check: check,
		Row: row, Column: at - row*p.Columns, Got: valueAt(p.DType, got, (at+guard)*p.DType.Size()),
	}
}
