package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
)

// checkGuard is the least number of invalid elements before and after A and C: a row of the widest register
// tile.
const checkGuard = 64

type checkRun struct {
	*GemmCheck
	device Device
	kernel Kernel
	check  CheckStep
	found  CheckResult

	closers []func() error
}

// close releases buffers newest first: weights go before the buffer they may read.
func (r *checkRun) close() error {
	var errs []error
	for i := len(r.closers) - 1; i >= 0; i-- {
		errs = append(errs, r.closers[i]())
	}
	return errors.Join(errs...)
}

// guardRows is the guard size in rows of ld elements. Parts of a split begin at whole rows, so whole-row
// guards give element (0,0) the alignment of a split.
func guardRows(ld int) int { return (checkGuard + ld - 1) / ld }

// inputPoison is the element around A and B: a quiet NaN, or 127 for int8.
func inputPoison(d DType) []byte {
	switch d {
	case FP32, TF32:
		return []byte{0x00, 0x00, 0xc0, 0x7f}
	case FP16:
		return []byte{0x00, 0x7e}
	case BF16:
		return []byte{0xc0, 0x7f}
	}
	return []byte{0x7f}
}

// outputPoison marks unwritten elements: a quiet NaN whose payload no arithmetic on the inputs' NaN yields,
// or an int32 that no sum of K < 90000 reaches.
func outputPoison(d DType) []byte {
	switch d {
	case FP32:
		return []byte{0xa5, 0x5a, 0xc5, 0x7f}
	case FP16:
		return []byte{0x5a, 0x7e}
	case BF16:
		return []byte{0xda, 0x7f}
	}
	return []byte{0x5a, 0x5a, 0x5a, 0x5a}
}

// stack is the layout of a batch's matrices in a buffer: each has rows rows of ld elements, and the next
// starts pitch rows later. Guards are before rows at the start and one guard at the end.
type stack struct{ products, rows, ld, pitch, before int }

func newStack(products, rows, ld, stride, before int) stack {
	return stack{products, rows, ld, stride / ld, before}
}

func (s stack) elements() int {
	return (s.before + (s.products-1)*s.pitch + s.rows + guardRows(s.ld)) * s.ld
}

func (s stack) first() int { return s.before * s.ld }

func (s stack) row(product, i int) int { return s.before + product*s.pitch + i }

// at returns the matrix of a buffer row and the row within it: negative before the first matrix, rows or more
// after the matrix.
func (s stack) at(row int) (product, i int) {
	product = max(0, min(s.products-1, (row-s.before)/s.pitch))
	return product, row - s.before - product*s.pitch
}

func (s stack) lay(d DType, matrices [][]float64, cols int) ([]byte, error) {
	size := d.Size()
	out := bytes.Repeat(inputPoison(d), s.elements())
	for product, v := range matrices {
		for i := range s.rows {
			row := out[s.row(product, i)*s.ld*size:][:cols*size]
			if err := Encode(d, v[i*cols:][:cols], row); err != nil {
				return nil, err
			}
			if d != INT8 {
				continue
			}
			for j, x := range v[i*cols:][:cols] { // Encode is symmetric and has no -128
				row[j] = byte(int8(x))
			}
		}
	}
	return out, nil
}

func (r *checkRun) upload(content []byte) (Buffer, error) {
	b, err := r.device.Alloc(int64(len(content)))
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, b.Close)
	return b, b.Upload(0, content)
}

func (r *checkRun) run(ctx context.Context) error {
	p, out := r.p, r.p.DType.Output()
	kind, err := r.kind(r.check)
	if err != nil {
		return err
	}
	hostA, hostB, blank := kind.hostA, kind.hostB, r.blank

	fail := func(err error) error {
		return fmt.Errorf("check: %s/%s/%s/%v: %w", r.device.Spec().ID, r.kernel.Name(), p.DType, p, err)
	}
	bufA, err := r.upload(hostA)
	if err != nil {
		return fail(err)
	}
	bufB, err := r.upload(hostB)
	if err != nil {
		return fail(err)
	}
	bufC, err := r.upload(blank)
	if err != nil {
		return fail(err)
	}
	weights, err := r.kernel.Prepare(r.p, bufB)
	if err != nil {
		return fail(err)
	}
	r.closers = append(r.closers, weights.Close)
	launch, err := r.kernel.Bind(r.p, Operand{bufA, kind.stackA.first()}, weights, Operand{bufC, r.output().first()})
	if err != nil {
		return fail(err)
	}

	var results [2][]byte
	for i := range results {
		if err := bufC.Upload(0, blank); err != nil {
			return fail(err)
		}
		if _, err := r.device.Execute(ctx, []Launch{launch}, 1); err != nil {
			return fail(err)
		}
		results[i] = make([]byte, len(blank))
		if err := bufC.Download(0, results[i]); err != nil {
			return fail(err)
		}
		if err := r.checkWritten(results[i], blank); err != nil {
			return r.strided(err, results[i], kind)
		}
	}
	// Causes before symptoms: a nondeterministic kernel fails as wrong first, and one that overwrites its
	// inputs does not repeat.
	if err := r.checkValues(results[0], kind); err != nil {
		return r.strided(err, results[0], kind)
	}
	for _, in := range []struct {
		name string
		buf  Buffer
		host []byte
		lies stack
	}{{"A", bufA, hostA, kind.stackA}, {"B", bufB, hostB, kind.stackB}} {
		now := make([]byte, len(in.host))
		if err := in.buf.Download(0, now); err != nil {
			return fail(err)
		}
		if at := firstDifference(now, in.host); at >= 0 {
			e := r.failure(CheckInputs)
			index := at / p.DType.Size()
			e.Product, e.Row = in.lies.at(index / in.lies.ld)
			e.Col = index % in.lies.ld
			e.Got, e.Want = valueAt(p.DType, now, at), valueAt(p.DType, in.host, at)
			e.Detail = "the launch wrote into " + in.name
			return e
		}
	}
	if at := firstDifference(results[1], results[0]); at >= 0 {
		e := r.element(CheckRepeat, at)
		e.Got, e.Want = valueAt(out, results[1], at), valueAt(out, results[0], at)
		e.Detail = "the second run differs from the first"
		return e
	}
	return nil
}

func (r *checkRun) checkWritten(got, blank []byte) error {
	out := r.p.DType.Output()
	size := out.Size()
	var padding, unwritten, overRead *CheckError
	note := func(e **CheckError, check CheckStep, at int, detail string) {
		if *e == nil {
			*e = r.element(check, at)
			(*e).Got, (*e).Detail = valueAt(out, got, at), detail
		}
		(*e).Wrong++
	}
	lies := r.output()
	for row := 0; row*r.p.LDC*size < len(got); row++ {
		line := row * r.p.LDC * size
		inside := 0 // bytes of this row inside C
		if _, i := lies.at(row); i >= 0 && i < r.p.M {
			inside = r.p.N * size
		}
		for at := line; at < line+inside; at += size {
			switch {
			case bytes.Equal(got[at:at+size], blank[at:at+size]):
				note(&unwritten, CheckUnwritten, at, "C was not written here, or read before it was written")
			case out != INT32 && r.check != CheckNonFinite && !(r.half && r.check == CheckOverflow) && math.IsNaN(valueAt(out, got, at)):
				note(&overRead, CheckOverRead, at, "a NaN from outside A or B, or from C, came into the sum")
			}
		}
		end := line + r.p.LDC*size
		if bytes.Equal(got[line+inside:end], blank[line+inside:end]) {
			continue
		}
		for at := line + inside; at < end; at += size {
			if !bytes.Equal(got[at:at+size], blank[at:at+size]) {
				note(&padding, CheckPadding, at, "written outside of C")
			}
		}
	}
	for _, e := range []*CheckError{padding, unwritten, overRead} {
		if e != nil {
			return e
		}
	}
	return nil
}

// checkValues compares every C with its reference. The error locates the first wrong element and counts the
// others.
func (r *checkRun) checkValues(got []byte, kind *gemmKind) error {
	var failure *CheckError
	p, out, lies := r.p, r.p.DType.Output(), r.output()
	row := make([]float64, p.N)
	for product, ref := range kind.references(p) {
		for i := range p.M {
			at := lies.row(product, i) * p.LDC * out.Size()
			if err := Decode(out, got[at:at+p.N*out.Size()], row); err != nil {
				return err
			}
			for j, v := range row {
				at := i*p.N + j
				right := ref.takes(out, at, v)
				if kind.check == CheckSubnormals {
					right = r.subnormal(out, kind, product, at, v, right)
				} else if right {
					r.found.Margin = max(r.found.Margin, ref.used(out, at, v))
				}
				if right {
					continue
				}
				if failure == nil {
					failure = r.failure(r.check)
					failure.Product, failure.Row, failure.Col = product, i, j
					failure.Got, failure.Want = v, ref.want[at]
					if rounded := roundTo(out, failure.Want); math.IsNaN(rounded) || math.IsInf(rounded, 0) {
						failure.Want = rounded
					} else if ref.bound != nil {
						failure.Bound = ref.bound[at]
					}
				}
				failure.Wrong++
			}
		}
	}
	if failure != nil {
		return failure
	}
	return nil
}

// subnormal checks element at of a product with subnormal operands and records how they are treated. kept is
// true if v matches the operands unflushed.
func (r *checkRun) subnormal(out DType, kind *gemmKind, product, at int, v float64, kept bool) bool {
	zero := kind.without != nil && kind.without[product].takes(out, at, v)
	switch {
	case kept && !zero:
		r.found.Subnormals = r.found.Subnormals.and(SubnormalsKept)
	case zero && !kept:
		r.found.Subnormals = r.found.Subnormals.and(SubnormalsZero)
	}
	return kept || zero
}

// takes reports whether v is correct for element at: within the bound or, near the output type's limit,
// rounded to either side.
func (ref gemmReference) takes(out DType, at int, v float64) bool {
	want := ref.want[at]
	if math.IsNaN(want) {
		return math.IsNaN(v)
	}
	if v == want {
		return true
	}
	if ref.bound == nil || math.IsInf(want, 0) {
		return false
	}
	bound := ref.bound[at]
	if math.IsInf(bound, 1) {
		return true
	}
	if math.IsInf(v, 0) {
		return v == roundTo(out, want-bound) || v == roundTo(out, want+bound)
	}
	return math.Abs(v-want) <= bound
}

// used returns the share of the bound, without the output rounding, that a correct element uses.
func (ref gemmReference) used(out DType, at int, v float64) float64 {
	want := ref.want[at]
	if ref.bound == nil || v == want || math.IsNaN(v) || math.IsInf(v, 0) || math.IsInf(want, 0) {
		return 0
	}
	rounding := out.UnitRoundoff() * math.Abs(want)
	if math.IsInf(ref.bound[at], 1) {
		return 0
	}
	return (math.Abs(v-want) - rounding) / (ref.bound[at] - rounding)
}

func (r *checkRun) failure(check CheckStep) *CheckError {
	return &CheckError{Device: r.device.Spec().ID, Kernel: r.kernel.Name(), Task: r.p, Check: check}
}

func (r *checkRun) element(check CheckStep, at int) *CheckError {
	e := r.failure(check)
	index := at / r.p.DType.Output().Size()
	e.Product, e.Row = r.output().at(index / r.p.LDC)
	e.Col = index % r.p.LDC
	return e
}

func valueAt(d DType, v []byte, at int) float64 {
	var x [1]float64
	at -= at % d.Size()
	if err := Decode(d, v[at:at+d.Size()], x[:]); err != nil {
		return math.NaN()
	}
	return x[0]
}

func transpose(v []float64, rows, cols int) []float64 {
	out := make([]float64, len(v))
	for i := range rows {
		for j := range cols {
			out[j*rows+i] = v[i*cols+j]
		}
	}
	return out
}
