package kernels

import (
	"context"
	"slices"
)

// SoftmaxCheck holds a problem's operands and references. It can check any number of kernels.
type SoftmaxCheck struct {
	p     Task
	blank []byte
	kinds []elementCase
	runs  int // of each kind
	// draw returns normal rows of a set of operands, for recorded launches; nil checks none.
	draw func(operandSets) (elementCase, error)
}

// NewSoftmaxCheck draws operands and computes float64 references. Rows are normal, peaked, level, or have
// infinities and NaN. The error names the invalid field of p.
func NewSoftmaxCheck(p Task, seed uint64) (*SoftmaxCheck, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	c := &SoftmaxCheck{p: p, runs: 2, blank: guarded(outputPoison(p.DType), p.M*p.Columns, p.Columns)}
	for _, data := range softmaxKinds {
		k, err := softmaxCase(p, data, seed)
		if err != nil {
			return nil, err
		}
		c.kinds = append(c.kinds, k)
	}
	c.draw = func(of operandSets) (elementCase, error) { return softmaxCase(p, normalRows, seedOf(seed, of.in)) }
	return c, nil
}

func softmaxCase(p Task, data softmaxData, seed uint64) (elementCase, error) {
	x := softmaxOperand(p, data, seed)
	k := elementCase{data: string(data), in: guarded(inputPoison(p.DType), p.M*p.Columns, p.Columns)}
	if err := Encode(p.DType, x, k.in[guardOf(p.Columns)*p.DType.Size():][:len(x)*p.DType.Size()]); err != nil {
		return k, err
	}
	k.want, k.bound = softmaxOf(p, x)
	return k, nil
}

// SoftmaxGate runs k and compares every element with a float64 reference, within [softmaxBound], on normal,
// peaked, level and special rows. Masked elements and the memory around the operand are NaN. It also checks
// stray writes, the unchanged operand, and that a second run returns the same bits. margin is the largest
// used share of the bound, 0 to 1, without the output rounding. The error is a [*ElementError], an
// [*Unsupported], one that names a field of p, or the device's.
func SoftmaxGate(ctx context.Context, d Device, k Kernel, p Task, seed uint64) (margin float64, err error) {
	margins, errs := softmaxGates(ctx, d, []Kernel{k}, p, seed)
	return margins[0], errs[0]
}

// softmaxGates is [SoftmaxGate] for several kernels that share operands and references, each with its margin
// and error.
func softmaxGates(ctx context.Context, d Device, ks []Kernel, p Task, seed uint64) ([]float64, []error) {
	margins, errs := make([]float64, len(ks)), make([]error, len(ks))
	p, err := p.Normalized()
	for i, k := range ks {
		if errs[i] = err; err == nil {
			errs[i] = k.Supports(p)
		}
	}
	if !slices.Contains(errs, nil) {
		return margins, errs
	}
	check, err := NewSoftmaxCheck(p, seed)
	for i, k := range ks {
		if errs[i] == nil {
			if errs[i] = err; err == nil {
				margins[i], errs[i] = check.Margin(ctx, d, k)
			}
		}
	}
	return margins, errs
}

// Brief returns the check with special rows only, executed once, for tools that trace memory accesses, which
// are the same for all rows.
func (c *SoftmaxCheck) Brief() *SoftmaxCheck {
	return &SoftmaxCheck{p: c.p, blank: c.blank, kinds: c.kinds[len(c.kinds)-1:], runs: 1}
}

// Margin is [SoftmaxGate] for operands drawn earlier and a kernel that supports the problem. It stops at the
// first failure.
func (c *SoftmaxCheck) Margin(ctx context.Context, d Device, k Kernel) (margin float64, err error) {
	return checkElements(ctx, d, k, c.p, c.kinds, c.blank, c.runs, c.draw)
}

// CheckSoftmax runs the [SoftmaxProblems] of type dt on k and stops at the first failure. If k refuses all,
// or the type has no softmax, Passed is 0 and the error is nil.
func CheckSoftmax(ctx context.Context, d Device, k Kernel, dt DType, seed uint64) (CheckSummary, error) {
	summaries, errs := CheckSoftmaxes(ctx, d, []Kernel{k}, dt, seed)
	return summaries[0], errs[0]
}

// CheckSoftmaxes is [CheckSoftmax] for several kernels that share operands and references. Each has its own
// summary and error; one failure does not stop the others.
func CheckSoftmaxes(ctx context.Context, d Device, ks []Kernel, dt DType, seed uint64) ([]CheckSummary, []error) {
	summaries, errs := make([]CheckSummary, len(ks)), make([]error, len(ks))
	if dt != FP32 && dt != FP16 && dt != BF16 {
		for i, k := range ks {
			summaries[i].Skipped = []error{&Unsupported{Kernel: k.Name(), DType: dt, Reason: "softmax has operands of fp32, fp16 and bf16"}}
		}
		return summaries, errs
	}
	for _, p := range SoftmaxProblems(dt) {
		var going []int
		var of []Kernel
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

// SoftmaxProblems returns the standard softmax and log-softmax problems for a type: column counts around
// vectors, warps and blocks, one row and many, scales, and causal masks with whole and partial sequences.
func SoftmaxProblems(d DType) []Task {
	var out []Task
	add := func(rows, columns, queries int, scale float32) {
		out = append(out,
			Task{Subject: Subject{Operation: SoftmaxOperation(len(out)%2 == 1), DType: d, Dims: Dims{Columns: columns, Queries: queries}},
				M: rows, Scale: scale})
	}
	both := func(rows, columns, queries int, scale float32) {
		add(rows, columns, queries, scale)
		add(rows, columns, queries, scale)
	}
	for columns := 9; columns >= 1; columns-- { // a row of one is 1 for any operand, which shows no stale one
		both(67, columns, 0, 1)
	}
	both(1, 1, 0, 1)
	both(1000, 3, 0, 0.125)
	both(4099, 16, 0, 1)
	for _, columns := range []int{15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 96, 127, 128, 129, 255, 256, 257, 384} {
		both(37, columns, 0, 1)
	}
	both(515, 100, 0, 0.25)
	for _, columns := range []int{511, 512, 513, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 3072} {
		both(13, columns, 0, 1)
	}
	for _, columns := range []int{4095, 4096, 4097, 5000, 8192, 8193, 12288, 16384, 16385} {
		both(3, columns, 0, 1)
	}
	both(8, 4096, 0, 3)
	add(3, 24576, 0, 1)
	add(1, 32768, 0, 0.5)
	add(3, 32771, 0, 1)
	add(1, 65536, 0, 1)
	add(1, 65537, 0, 1)
	add(1, 131072, 0, 1)
	add(2, 131075, 0, 0.125)
	add(1, 262144, 0, 1)
	// Causal masks: squares, a partial sequence after whole ones, more columns than queries, one query, and
	// rows of one element.
	for _, m := range []struct{ rows, columns, queries int }{
		{1, 1, 1}, {5, 5, 5}, {48, 16, 16}, {70, 33, 33}, {96, 64, 32}, {130, 100, 100}, {131, 128, 128},
		{9, 300, 1}, {40, 257, 7}, {70, 512, 64}, {60, 1024, 1024}, {33, 1030, 1000}, {8, 5000, 3}, {3, 20000, 20000}, {2, 70000, 1},
	} {
		both(m.rows, m.columns, m.queries, 0.125)
	}
	return out
}
