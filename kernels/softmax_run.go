package kernels

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
)

type softmaxRun struct {
	device  Device
	kernel  Kernel
	p       Task
	in, out Operand
	data    softmaxData
	margin  float64
	results [][]byte // of all executions
	after   []byte
	launch  Launch
	held    []Buffer
}

// fill uploads content to a buffer, allocating it if nil.
func (r *softmaxRun) fill(b *Buffer, content []byte) (err error) {
	if *b == nil {
		if *b, err = r.device.Alloc(int64(len(content))); err != nil {
			return err
		}
		r.held = append(r.held, *b)
	}
	return (*b).Upload(0, content)
}

// softmaxGuard is the number of invalid elements before and after an operand: at least a row, and enough to
// align the operand like a user's allocation.
func softmaxGuard(columns int) int {
	return (guardRows(columns)*columns + checkGuard - 1) / checkGuard * checkGuard
}

func (r *softmaxRun) run(ctx context.Context, kind softmaxKind, blank []byte) error {
	p := r.p
	fail := func(err error) error {
		return fmt.Errorf("check: %s/%s: %v, %s rows: %w", r.device.Spec().ID, r.kernel.Name(), p, r.data, err)
	}
	guard, size := softmaxGuard(p.Columns), p.DType.Size()
	if err := r.fill(&r.in.Buffer, kind.in); err != nil {
		return fail(err)
	}
	if err := r.fill(&r.out.Buffer, blank); err != nil {
		return fail(err)
	}
	r.in.Offset, r.out.Offset = guard, guard
	if r.launch == nil {
		var err error
		if r.launch, err = r.kernel.Bind(p, r.in, NothingStored{}, r.out); err != nil {
			return fail(err)
		}
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
	if err := r.checkWritten(first, blank, guard); err != nil {
		return err
	}
	if err := r.checkValues(first, kind, guard); err != nil {
		return err
	}
	if err := r.in.Buffer.Download(0, r.after); err != nil {
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

// checkWritten finds writes outside the output and missing writes inside it.
func (r *softmaxRun) checkWritten(got, blank []byte, guard int) error {
	size, n := r.p.DType.Size(), r.p.M*r.p.Columns
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

// checkValues compares the output with the reference concurrently in parts.
func (r *softmaxRun) checkValues(got []byte, kind softmaxKind, guard int) error {
	type part struct {
		margin       float64
		first, wrong int
		err          error
	}
	const least = 1 << 14
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

// judgeSoftmax returns the largest used share of the bound, the first wrong element, and the number of wrong
// elements.
func judgeSoftmax(d DType, values, ref, bound []float64) (margin float64, first, wrong int) {
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

func (r *softmaxRun) element(check CheckStep, at int, got []byte) *SoftmaxError {
	p := r.p
	row := int(math.Floor(float64(at) / float64(p.Columns)))
	guard := softmaxGuard(p.Columns)
	return &SoftmaxError{
		Device: r.device.Spec().ID, Kernel: r.kernel.Name(), Task: p, Data: string(r.data), Check: check,
		Row: row, Column: at - row*p.Columns, Got: valueAt(p.DType, got, (at+guard)*p.DType.Size()),
	}
}
