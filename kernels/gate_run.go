package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
)

// gateGuard is the least number of poisoned elements before and after A and C: a
// row of the widest register tile.
const gateGuard = 64

// gateRun is one check of one problem: its buffers, and what was found.
type gateRun struct {
	device Device
	gemm   Gemm
	p      Problem // normalized
	check  GateCheck
	margin float64

	closers []func() error
}

// close releases what the run holds, the newest first: weights before the
// buffer they may read.
func (r *gateRun) close() error {
	var errs []error
	for i := len(r.closers) - 1; i >= 0; i-- {
		errs = append(errs, r.closers[i]())
	}
	return errors.Join(errs...)
}

// guardRows is the number of rows of ld elements that make up a guard. Guards are
// whole rows, as the parts of a split begin at whole rows: so the address of
// element (0,0) has the alignment that a split gives it.
func guardRows(ld int) int { return (gateGuard + ld - 1) / ld }

// inputPoison is one element that stands beside A and B: a quiet NaN, or the
// largest int8.
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

// outputPoison is one element that was not written: a quiet NaN whose payload no
// arithmetic on the inputs' NaN yields, or an int32 that no sum of K < 90000 reaches.
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

// lay stores a tight rows×cols matrix with leading dimension ld among poison, with
// before rows of it ahead and a guard behind.
func lay(d DType, v []float64, rows, cols, ld, before int) ([]byte, error) {
	size := d.Size()
	out := bytes.Repeat(inputPoison(d), (before+rows+guardRows(ld))*ld)
	for i := range rows {
		if err := Encode(d, v[i*cols:][:cols], out[(before+i)*ld*size:][:cols*size]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// upload puts bytes into a new buffer of the device, which close releases.
func (r *gateRun) upload(content []byte) (Buffer, error) {
	b, err := r.device.Alloc(int64(len(content)))
	if err != nil {
		return nil, err
	}
	r.closers = append(r.closers, b.Close)
	return b, b.Upload(0, content)
}

// run draws the operands, executes the product twice and judges it.
func (r *gateRun) run(ctx context.Context, seed uint64) error {
	p := r.p
	operands := newGateOperands(p, r.check, seed)
	guardA, guardC := guardRows(p.LDA), guardRows(p.LDC)
	hostA, err := lay(p.DType, operands.a, p.M, p.K, p.LDA, guardA)
	if err != nil {
		return err
	}
	rowsB, colsB, b := p.K, p.N, operands.b
	if p.BLayout == Transposed {
		rowsB, colsB, b = p.N, p.K, transpose(operands.b, p.K, p.N)
	}
	hostB, err := lay(p.DType, b, rowsB, colsB, p.LDB, 0)
	if err != nil {
		return err
	}
	out := p.DType.Output()
	blank := bytes.Repeat(outputPoison(out), (guardC+p.M+guardRows(p.LDC))*p.LDC)

	fail := func(err error) error {
		return fmt.Errorf("gate: %s/%s/%s/%v: %w", r.device.Spec().ID, r.gemm.Name(), p.DType, p.Shape, err)
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
	weights, err := r.gemm.PrepareWeights(p, bufB)
	if err != nil {
		return fail(err)
	}
	r.closers = append(r.closers, weights.Close)
	launch, err := r.gemm.Bind(p, Operand{bufA, guardA * p.LDA}, weights, Operand{bufC, guardC * p.LDC})
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
		if err := r.checkWritten(results[i], blank, guardC); err != nil {
			return err
		}
	}
	// Causes before symptoms: a kernel that is wrong in a new way each time is
	// wrong first of all, and one that clobbers its inputs does not repeat.
	if err := r.checkValues(results[0], guardC, operands); err != nil {
		return err
	}
	for _, in := range []struct {
		name string
		buf  Buffer
		host []byte
		ld   int
		skip int
	}{{"A", bufA, hostA, p.LDA, guardA}, {"B", bufB, hostB, p.LDB, 0}} {
		now := make([]byte, len(in.host))
		if err := in.buf.Download(0, now); err != nil {
			return fail(err)
		}
		if at := firstDifference(now, in.host); at >= 0 {
			e := r.failure(CheckInputs)
			index := at / p.DType.Size()
			e.Row, e.Col = index/in.ld-in.skip, index%in.ld
			e.Got, e.Want = valueAt(p.DType, now, at), valueAt(p.DType, in.host, at)
			e.Detail = "the launch wrote into " + in.name
			return e
		}
	}
	if at := firstDifference(results[1], results[0]); at >= 0 {
		e := r.element(CheckRepeat, at, guardC)
		e.Got, e.Want = valueAt(out, results[1], at), valueAt(out, results[0], at)
		e.Detail = "the second run differs from the first"
		return e
	}
	return nil
}

// checkWritten looks at what was written and what was not.
func (r *gateRun) checkWritten(got, blank []byte, guard int) error {
	out := r.p.DType.Output()
	size := out.Size()
	var padding, unwritten, overRead *GateError
	note := func(e **GateError, check GateCheck, at int, detail string) {
		if *e == nil {
			*e = r.element(check, at, guard)
			(*e).Got, (*e).Detail = valueAt(out, got, at), detail
		}
		(*e).Wrong++
	}
	for row := 0; row*r.p.LDC*size < len(got); row++ {
		line := row * r.p.LDC * size
		inside := 0 // bytes of this row that belong to C
		if row >= guard && row < guard+r.p.M {
			inside = r.p.N * size
		}
		for at := line; at < line+inside; at += size {
			switch {
			case bytes.Equal(got[at:at+size], blank[at:at+size]):
				note(&unwritten, CheckUnwritten, at, "C was not written here, or read before it was written")
			case out != INT32 && math.IsNaN(valueAt(out, got, at)):
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
	for _, e := range []*GateError{padding, unwritten, overRead} {
		if e != nil {
			return e
		}
	}
	return nil
}

// checkValues compares C with the reference, element by element.
func (r *gateRun) checkValues(got []byte, guard int, operands gateOperands) error {
	p, out := r.p, r.p.DType.Output()
	exact := r.check != CheckAccuracy || p.DType == INT8
	ref, magnitude := operands.product(p.Shape, !exact)
	row := make([]float64, p.N)
	var failure *GateError
	for i := range p.M {
		at := (guard + i) * p.LDC * out.Size()
		if err := Decode(out, got[at:at+p.N*out.Size()], row); err != nil {
			return err
		}
		for j, v := range row {
			want, bound := ref[i*p.N+j], 0.0
			if exact {
				want = roundTo(out, want)
			} else {
				bound = GateBound(p, want, magnitude[i*p.N+j])
			}
			diff := math.Abs(v - want)
			if v == want { // also equal infinities, whose difference is NaN
				diff = 0
			}
			if rounding := out.UnitRoundoff() * math.Abs(want); bound > rounding {
				r.margin = max(r.margin, (diff-rounding)/(bound-rounding))
			}
			if diff <= bound {
				continue
			}
			if failure == nil {
				failure = r.failure(r.check)
				failure.Row, failure.Col = i, j
				failure.Got, failure.Want, failure.Bound = v, want, bound
			}
			failure.Wrong++
		}
	}
	if failure != nil {
		return failure
	}
	return nil
}

func (r *gateRun) failure(check GateCheck) *GateError {
	return &GateError{Device: r.device.Spec().ID, Kernel: r.gemm.Name(), Problem: r.p, Check: check}
}

// element is a failure at a byte of C's buffer.
func (r *gateRun) element(check GateCheck, at, guard int) *GateError {
	e := r.failure(check)
	index := at / r.p.DType.Output().Size()
	e.Row, e.Col = index/r.p.LDC-guard, index%r.p.LDC
	return e
}

// valueAt decodes the element to which byte at of v belongs.
func valueAt(d DType, v []byte, at int) float64 {
	var x [1]float64
	at -= at % d.Size()
	if err := Decode(d, v[at:at+d.Size()], x[:]); err != nil {
		return math.NaN()
	}
	return x[0]
}

// transpose turns a tight rows×cols matrix into cols×rows.
func transpose(v []float64, rows, cols int) []float64 {
	out := make([]float64, len(v))
	for i := range rows {
		for j := range cols {
			out[j*rows+i] = v[i*cols+j]
		}
	}
	return out
}
