package kernels

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// AttentionError reports how attention failed its correctness check.
type AttentionError struct {
	Device string
	Case   AttentionCase
	// Data is the kind of operands: normal, peaked, level or special.
	Data  string
	Check CheckStep
	// Row, Head and Element locate the first wrong output. For CheckPadding the row may lie outside the case.
	Row, Head, Element int
	// Bound is the allowed error.
	Got, Want, Bound float64
	// Wrong is the number of wrong outputs.
	Wrong int
	// Detail adds what Got and Want can't show.
	Detail string
}

// WrongResult implements [WrongResult].
func (*AttentionError) WrongResult() {}

func (e *AttentionError) Error() string {
	s := fmt.Sprintf("check: %s: %v, %s scores: %s: row %d head %d element %d is %g",
		e.Device, e.Case, e.Data, e.Check, e.Row, e.Head, e.Element, e.Got)
	if e.Bound > 0 {
		s += fmt.Sprintf(", expected %g ± %.3g", e.Want, e.Bound)
	} else if e.Check == CheckNonFinite {
		s += fmt.Sprintf(", expected %g", e.Want)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Wrong > 1 {
		s += fmt.Sprintf(" (%d outputs)", e.Wrong)
	}
	return s
}

// AttentionCheck holds a case's operands and reference. It can check any number of kernels.
type AttentionCheck struct {
	c     AttentionCase
	kinds []attentionKind
}

type attentionKind struct {
	data attentionData
	attentionOperands
	ref, bound []float64
}

// NewAttentionCheck draws operands and computes float64 references. Scores are normal, peaked and level;
// small cases also have infinities and NaN, where a kernel may return NaN for an infinity. The error names
// the invalid field of c.
func NewAttentionCheck(c AttentionCase, seed uint64) (*AttentionCheck, error) {
	c, err := c.Normalized()
	if err != nil {
		return nil, err
	}
	check := &AttentionCheck{c: c}
	kinds := []attentionData{normalScores, peakedScores, levelScores}
	if c.Rows*(c.Position+c.Rows)*c.Heads.Query*c.Heads.Dim <= mostSpecial {
		kinds = append(kinds, specialScores)
	}
	for _, data := range kinds {
		check.kinds = append(check.kinds, newAttentionKind(c, data, seed))
	}
	return check, nil
}

func newAttentionKind(c AttentionCase, data attentionData, seed uint64) attentionKind {
	k := attentionKind{data: data, attentionOperands: newAttentionOperands(c, data, seed)}
	k.ref, k.bound = k.attend(c)
	return k
}

// Finite returns the check without infinities and NaN, for kernels that multiply keys by 0 before they
// attend.
func (k *AttentionCheck) Finite() *AttentionCheck {
	return &AttentionCheck{c: k.c,
		kinds: slices.DeleteFunc(slices.Clone(k.kinds), func(o attentionKind) bool { return o.data == specialScores })}
}

// AttentionGate runs attention as attend binds it and compares every output with a float64 reference, within
// [attentionBound], on normal, peaked and level scores. Invisible cache slots and the memory around operands
// are NaN. The position is written after the launch is bound. It also checks stray writes, unchanged
// operands, and that a second run returns the same bits. The error is an [*AttentionError], attend's, or the
// device's.
func AttentionGate(ctx context.Context, d Device, attend func(Attention) (Launch, error), c AttentionCase, seed uint64) error {
	check, err := NewAttentionCheck(c, seed)
	if err != nil {
		return err
	}
	_, err = check.Margin(ctx, d, attend)
	return err
}

// Margin is [AttentionGate] for operands drawn earlier. It returns the largest used share of the bound, 0 to
// 1, without the rounding to the output type.
func (k *AttentionCheck) Margin(ctx context.Context, d Device, attend func(Attention) (Launch, error)) (float64, error) {
	var margin float64
	for _, kind := range k.kinds {
		r := &attentionRun{device: d, c: k.c, data: kind.data}
		err := r.run(ctx, attend, kind)
		for i := len(r.held) - 1; i >= 0; i-- {
			err = errors.Join(err, r.held[i].Close())
		}
		if err != nil {
			return 0, err
		}
		margin = max(margin, r.margin)
	}
	return margin, nil
}

type attentionRun struct {
	device Device
	c      AttentionCase
	data   attentionData
	margin float64
	held   []Buffer
}

type attentionInput struct {
	name string
	buf  Buffer
	host []byte
}

const positionPoison = math.MinInt32

func (r *attentionRun) input(name string, rows, cols, ld int, row func(i int) []float64) (attentionInput, Operand, error) {
	size, guard := r.c.DType.Size(), guardRows(ld)*ld
	host := bytes.Repeat(inputPoison(r.c.DType), rows*ld+2*guard)
	for i := range rows {
		if v := row(i); v != nil {
			if err := Encode(r.c.DType, v, host[(guard+i*ld)*size:][:cols*size]); err != nil {
				return attentionInput{}, Operand{}, err
			}
		}
	}
	buf, err := r.upload(host)
	return attentionInput{name, buf, host}, Operand{buf, guard}, err
}

func (r *attentionRun) upload(content []byte) (Buffer, error) {
	b, err := r.device.Alloc(int64(len(content)))
	if err != nil {
		return nil, err
	}
	r.held = append(r.held, b)
	return b, b.Upload(0, content)
}

// cacheRow returns row i of the cache, [Heads.KV][Capacity], or nil if no query row sees it.
func (o attentionOperands) cacheRow(c AttentionCase, x []float64, i int) []float64 {
	kv, slot := i/c.Capacity, i%c.Capacity
	j := (slot - o.first%c.Capacity + c.Capacity) % c.Capacity
	if j >= o.keys {
		return nil
	}
	return x[(kv*o.keys+j)*c.Heads.Dim:][:c.Heads.Dim]
}

func (r *attentionRun) run(ctx context.Context, attend func(Attention) (Launch, error), o attentionKind) error {
	c := r.c
	fail := func(err error) error {
		return fmt.Errorf("check: %s: %v, %s scores: %w", r.device.Spec().ID, c, r.data, err)
	}
	width := c.Heads.Query * c.Heads.Dim
	a := Attention{Rows: c.Rows, Heads: c.Heads, DType: c.DType, Window: c.Window, Scale: c.Scale, LDQ: c.LDQ, Length: c.Length}
	a.Cache.Capacity = c.Capacity
	inputs := make([]attentionInput, 3)
	var err error
	if inputs[0], a.Q, err = r.input("queries", c.Rows, width, c.LDQ, func(i int) []float64 { return o.q[i*width:][:width] }); err != nil {
		return fail(err)
	}
	slots := c.Heads.KV * c.Capacity
	if inputs[1], a.Cache.Keys, err = r.input("keys", slots, c.Heads.Dim, c.Heads.Dim,
		func(i int) []float64 { return o.cacheRow(c, o.k, i) }); err != nil {
		return fail(err)
	}
	if inputs[2], a.Cache.Values, err = r.input("values", slots, c.Heads.Dim, c.Heads.Dim,
		func(i int) []float64 { return o.cacheRow(c, o.v, i) }); err != nil {
		return fail(err)
	}
	blank := bytes.Repeat(outputPoison(c.DType), (c.Rows+2*guardRows(width))*width)
	out, err := r.upload(blank)
	if err != nil {
		return fail(err)
	}
	a.Out = Operand{out, guardRows(width) * width}
	position := make([]byte, 12)
	for i := range 3 {
		poison := positionPoison
		binary.LittleEndian.PutUint32(position[4*i:], uint32(poison))
	}
	where, err := r.upload(position)
	if err != nil {
		return fail(err)
	}
	a.Position = Operand{where, 1}
	launch, err := attend(a)
	if err != nil {
		return fail(err)
	}
	binary.LittleEndian.PutUint32(position[4:], uint32(c.Position))
	if err := where.Upload(0, position); err != nil {
		return fail(err)
	}
	inputs = append(inputs, attentionInput{"position", where, position})

	var results [2][]byte
	for i := range results {
		if err := out.Upload(0, blank); err != nil {
			return fail(err)
		}
		if _, err := r.device.Execute(ctx, []Launch{launch}, 1); err != nil {
			return fail(err)
		}
		results[i] = make([]byte, len(blank))
		if err := out.Download(0, results[i]); err != nil {
			return fail(err)
		}
	}
	if err := r.checkWritten(results[0], blank); err != nil {
		return err
	}
	if err := r.checkValues(results[0], o); err != nil {
		return err
	}
	for _, in := range inputs {
		now := make([]byte, len(in.host))
		if err := in.buf.Download(0, now); err != nil {
			return fail(err)
		}
		if at := firstDifference(now, in.host); at >= 0 {
			e := r.failure(CheckInputs)
			e.Detail = fmt.Sprintf("the %s were written to, at byte %d of their buffer", in.name, at)
			return e
		}
	}
	if at := firstDifference(results[1], results[0]); at >= 0 {
		e := r.element(CheckRepeat, at, results[1])
		e.Detail = fmt.Sprintf("the first run gave %g", valueAt(c.DType, results[0], at))
		return e
	}
	return nil
}

func (r *attentionRun) checkWritten(got, blank []byte) error {
	size := r.c.DType.Size()
	width := r.c.Heads.Query * r.c.Heads.Dim
	guard := guardRows(width)
	w := written{got: got, poison: blank[:size], from: guard * width * size, to: (guard + r.c.Rows) * width * size}
	if at, wrong := w.outside(); wrong > 0 {
		failure := r.element(CheckPadding, at, got)
		failure.Detail, failure.Wrong = writtenOutside, wrong
		return failure
	}
	if at, wrong := w.unwritten(); wrong > 0 {
		failure := r.element(CheckUnwritten, at, got)
		failure.Detail, failure.Wrong = notWritten, wrong
		return failure
	}
	return nil
}

func (r *attentionRun) checkValues(got []byte, o attentionKind) error {
	ref, bound := o.ref, o.bound
	size, width := r.c.DType.Size(), r.c.Heads.Query*r.c.Heads.Dim
	start := guardRows(width) * width * size
	values := make([]float64, len(ref))
	if err := Decode(r.c.DType, got[start:], values); err != nil {
		return err
	}
	var failure *AttentionError
	for i, v := range values {
		// Kernels that split a weight into two numbers also multiply an infinity by the second, which may be
		// 0.
		if v == ref[i] || math.IsNaN(v) && (math.IsNaN(ref[i]) || r.data == specialScores && math.IsInf(ref[i], 0)) {
			continue
		}
		rounding := r.c.DType.UnitRoundoff() * math.Abs(ref[i])
		diff := math.Abs(v - ref[i])
		if diff <= bound[i] {
			r.margin = max(r.margin, (diff-rounding)/(bound[i]-rounding))
			continue
		}
		if failure == nil {
			check, detail := CheckAccuracy, ""
			if r.data == specialScores {
				check = CheckNonFinite
			} else if math.IsNaN(v) {
				check, detail = CheckOverRead,
					"tokens that no row sees, or memory outside the operands, took part, or the arithmetic overflowed"
			}
			failure = r.element(check, start+i*size, got)
			failure.Want, failure.Detail = ref[i], detail
			if !math.IsNaN(bound[i]) && !math.IsInf(bound[i], 0) {
				failure.Bound = bound[i]
			}
		}
		failure.Wrong++
	}
	if failure != nil {
		return failure
	}
	return nil
}

func (r *attentionRun) failure(check CheckStep) *AttentionError {
	return &AttentionError{Device: r.device.Spec().ID, Case: r.c, Data: string(r.data), Check: check}
}

func (r *attentionRun) element(check CheckStep, at int, got []byte) *AttentionError {
	e := r.failure(check)
	width := r.c.Heads.Query * r.c.Heads.Dim
	index := at / r.c.DType.Size()
	e.Row, e.Head, e.Element = index/width-guardRows(width), index%width/r.c.Heads.Dim, index%r.c.Heads.Dim
	e.Got = valueAt(r.c.DType, got, at)
	return e
}
