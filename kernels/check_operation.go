package kernels

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// checkByReference is the Gate of an operation that defines a Reference. It runs the operation's Cases on kernels and
// compares every element: like [SoftmaxGate], with N(0,1) operands. An error names a fault that no case shows.
func (o Operation) checkByReference(ctx context.Context, d Device, ks []Kernel, dt DType, seed uint64) ([]CheckSummary, []error) {
	summaries, errs := make([]CheckSummary, len(ks)), make([]error, len(ks))
	fail := func(err error) ([]CheckSummary, []error) { return summaries, slices.Repeat([]error{err}, len(ks)) }
	cases, faults := o.definition().Cases(dt), o.definition().Faults
	could, shown := make([]bool, len(faults)), make([]bool, len(faults)) // by a case
	for _, t := range cases {
		t.Operation = o
		t, err := t.behindGuards().Normalized()
		if err != nil {
			return fail(err)
		}
		of, err := drawCase(t, seed)
		if err != nil {
			return fail(err)
		}
		for i, f := range faults {
			if f.Applies == nil || f.Applies(t) {
				could[i], shown[i] = true, shown[i] || of.shows(t, f)
			}
		}
		for i, k := range ks {
			if errs[i] != nil {
				continue
			}
			margin, failed := 0.0, k.Supports(t)
			if failed == nil {
				margin, failed = of.check(ctx, d, k, t, seed)
			}
			errs[i] = summaries[i].add(ctx, margin, failed)
		}
	}
	for i, f := range faults {
		if could[i] && !shown[i] {
			return fail(fmt.Errorf("check: %v %s: the bound accepts the fault %q", o, dt, f.Name))
		}
	}
	return summaries, errs
}

// CheckByReference compares a kernel's result with the Reference of the task's operation, like its gate, for one task. It returns the
// largest part of the allowed error, or an error that names an element beyond it.
func CheckByReference(ctx context.Context, d Device, k Kernel, t Task, seed uint64) (float64, error) {
	t, err := t.behindGuards().Normalized()
	if err != nil {
		return 0, err
	}
	if err := k.Supports(t); err != nil {
		return 0, err
	}
	of, err := drawCase(t, seed)
	if err != nil {
		return 0, err
	}
	return of.check(ctx, d, k, t, seed)
}

// check runs a kernel on the case of a task, and on others of its size.
func (c elementCase) check(ctx context.Context, d Device, k Kernel, t Task, seed uint64) (float64, error) {
	blank := guarded(outputPoison(t.OutputType()), len(c.want), int(t.OutputElements(1)))
	return checkElements(ctx, d, k, t, []elementCase{c}, blank, 2, func(of operandSets) (elementCase, error) {
		in, _, err := drawOperands(t, seedOf(seed, of.in))
		if err != nil {
			return elementCase{}, err
		}
		_, stored, err := drawOperands(t, seedOf(seed, of.stored))
		if err != nil {
			return elementCase{}, err
		}
		return caseOf(t, in, stored)
	})
}

// drawCase draws a task's operands and computes its reference.
func drawCase(t Task, seed uint64) (elementCase, error) {
	in, stored, err := drawOperands(t, seed)
	if err != nil {
		return elementCase{}, err
	}
	return caseOf(t, in, stored)
}

// behindGuards places a residual, or the scales of activations, behind the guard of A.
func (t Task) behindGuards() Task {
	at := int(t.InputElements(t.M)) + guardOf(int(t.InputElements(1)))
	if t.ResidualElements(t.M) > 0 {
		t.ResidualAt = at
	}
	if t.Scaled() {
		t.ScalesAt = ceilDiv(at*t.DType.Size(), scaleAlignment) * scaleAlignment
	}
	return t
}

// drawOperands draws a task's input, with its residual behind it, and what it stores, if anything.
func drawOperands(t Task, seed uint64) (in, stored []float64, err error) {
	rng := rand.New(rand.NewPCG(seed, uint64(t.M)))
	if t.Quantized() {
		return drawQuantizedOperands(t, rng)
	}
	draw := func(n int64) []float64 {
		v := make([]float64, n)
		for i := range v {
			if v[i] = roundTo(t.DType, rng.NormFloat64()); t.DType == INT8 {
				v[i] = math.Round(max(-127, min(127, 32*rng.NormFloat64())))
			}
		}
		return v
	}
	return draw(t.InputElements(t.M) + t.ResidualElements(t.M)), draw(t.Stored(t.M) / int64(t.DType.Size())), nil
}

// caseOf encodes operands and computes their reference.
func caseOf(t Task, in, stored []float64) (elementCase, error) {
	size, first := t.DType.Size(), guardOf(int(t.InputElements(1)))
	extent, _, _ := t.Extents()
	of := elementCase{in: guarded(inputPoison(t.DType), int(extent), int(t.InputElements(1)))}
	of.operands = [2][]float64{in, stored}
	of.want, of.bound = t.Operation.definition().Reference(t, in, stored)
	if t.Quantized() {
		var err error
		of.stored, err = encodeQuantized(t, in, stored, of.in[first*size:])
		return of, err
	}
	a := int(t.InputElements(t.M))
	if err := Encode(t.DType, in[:a], of.in[first*size:][:a*size]); err != nil {
		return of, err
	}
	if residual := in[a:]; len(residual) > 0 {
		if err := Encode(t.DType, residual, of.in[(first+t.ResidualAt)*size:][:len(residual)*size]); err != nil {
			return of, err
		}
	}
	if len(stored) > 0 {
		of.stored = make([]byte, len(stored)*size)
		if err := Encode(t.DType, stored, of.stored); err != nil {
			return of, err
		}
	}
	return of, nil
}

// shows reports whether the bound rejects a fault.
func (c elementCase) shows(t Task, f Fault) bool {
	out := f.Wrong(t, c.operands[0], c.operands[1], c.want)
	for i, v := range out {
		out[i] = roundTo(t.OutputType(), v)
	}
	_, _, wrong := judgeElements(t.OutputType(), out, c.want, c.bound)
	return wrong > 0
}
