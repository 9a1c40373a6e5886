package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
)

// GemmCheck is a task of a product in the correctness check, with operands and references computed on first
// use. It can check any number of kernels, but only from one goroutine at a time.
type GemmCheck struct {
	p Task // normalized
	// batch has the strides of p's products: a single product is a batch of one.
	batch Task
	// weights is the type that quantized weight values are rounded to; sums is the same check with unrounded
	// values.
	weights DType
	sums    *GemmCheck
	halves  *GemmCheck // the same check with the bound of a [HalfSummer], which has half set
	half    bool
	rounds  *GemmCheck // the same check with the bound of an [ActivationRounder], which has rounded set
	rounded bool
	seed    uint64
	checks  []CheckStep
	blank   []byte
	kinds   map[CheckStep]*gemmKind
	replay  *gemmReplay // on first use
}

// variant returns a copy without what depends on the fields that tell checks of one task apart.
func (c *GemmCheck) variant() *GemmCheck {
	v := *c
	v.kinds, v.sums, v.halves, v.rounds, v.replay = map[CheckStep]*gemmKind{}, nil, nil, nil, nil
	return &v
}

type gemmKind struct {
	check          CheckStep
	half, rounded  bool
	hostA, hostB   []byte
	stackA, stackB stack
	operands       []checkOperands // each product's operands, until references exist
	refs           []gemmReference
	// without are the references with subnormal operands as zero, for kernels that may flush them.
	without []gemmReference
}

// gemmReference is one product's expected output, M×N, and the allowed error of each element. bound is nil if
// sums are exact. Elements outside the output type's range are not rounded; non-finite ones have no bound.
type gemmReference struct{ want, bound []float64 }

// NewGemmCheck makes the check of one task of a product. A batch's strides must be whole rows. The error names
// the invalid field.
func NewGemmCheck(t Task, seed uint64) (*GemmCheck, error) {
	p, err := t.Normalized()
	if err != nil {
		return nil, err
	}
	p = behindGuard(p)
	batch := p
	batch.Products, batch.Weights, batch.ScalesAt, batch.LDScales = max(1, p.Products), WeightFormat{}, 0, 0
	if batch, err = batch.Normalized(); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		name       string
		stride, ld int
	}{{"A", batch.StrideA, p.LDA}, {"B", batch.StrideB, p.LDB}, {"C", batch.StrideC, p.LDC}} {
		if s.stride%s.ld != 0 {
			return nil, fmt.Errorf("check: %v: the stride of %s is %d, expected whole rows of %d", p, s.name, s.stride, s.ld)
		}
	}
	c := &GemmCheck{p: p, batch: batch, weights: p.DType, seed: seed, checks: checksOf(p), kinds: map[CheckStep]*gemmKind{}}
	c.blank = bytes.Repeat(outputPoison(p.DType.Output()), c.output().elements())
	return c, nil
}

// CheckResult describes a kernel that passed a check.
type CheckResult struct {
	Margin     float64 // see [CheckMargin]
	Subnormals Subnormals
	HalfSums   DType // see [CheckSummary]
	Rounded    bool  // activations were rounded, see [ActivationRounder]
}

// Margin runs the task on k and returns what [CheckMargin] does.
func (c *GemmCheck) Margin(ctx context.Context, d Device, k Kernel) (float64, error) {
	found, err := c.Run(ctx, d, k)
	return found.Margin, err
}

// Run is [GemmCheck.Margin] and also reports how subnormal operands are treated, if the check has any.
func (c *GemmCheck) Run(ctx context.Context, d Device, k Kernel) (CheckResult, error) {
	if err := k.Supports(c.p); err != nil {
		return CheckResult{}, err
	}
	if s, ok := k.(SumScaler); ok && c.p.Quantized() && s.ScalesSums(c.p) {
		c = c.scaled()
	}
	found := CheckResult{HalfSums: HalfSumsOf(k, c.p)}
	if found.HalfSums != "" {
		c = c.halved()
	}
	if found.Rounded = RoundsActivations(k, c.p); found.Rounded {
		c = c.roundedActivations()
	}
	err := replayFirst(k, slices.Contains(c.checks, CheckAccuracy), func(r Recorder) (bool, error) {
		return checkReplay(ctx, d, r, c.p, c.replays(d, k))
	}, func() error { return c.steps(ctx, d, k, &found) })
	if err != nil {
		return CheckResult{}, err
	}
	return found, nil
}

// steps runs the checks on a kernel.
func (c *GemmCheck) steps(ctx context.Context, d Device, k Kernel, found *CheckResult) error {
	for _, check := range c.checks {
		r := checkRun{GemmCheck: c, device: d, kernel: k, check: check}
		err := r.run(ctx)
		if err := errors.Join(err, r.close()); err != nil {
			return err
		}
		found.Margin = max(found.Margin, r.found.Margin)
		found.Subnormals = found.Subnormals.and(r.found.Subnormals)
	}
	return nil
}

// kind returns the operands of a check, drawn on first use.
func (c *GemmCheck) kind(check CheckStep) (*gemmKind, error) {
	if k := c.kinds[check]; k != nil {
		return k, nil
	}
	k, err := c.draw(check, c.seed)
	if err == nil {
		c.kinds[check] = k
	}
	return k, err
}

// draw draws the operands of a check.
func (c *GemmCheck) draw(check CheckStep, seed uint64) (*gemmKind, error) {
	p, n := c.p, c.batch.Products
	k := &gemmKind{check: check, half: c.half, rounded: c.rounded, operands: make([]checkOperands, n)}
	as, bs := make([][]float64, n), make([][]float64, n)
	rowsB, colsB := p.sidesOfB()
	for i := range k.operands {
		o := newCheckOperands(p, check, p.Quantized(), seed+uint64(i)*0x9e3779b97f4a7c15)
		k.operands[i], as[i], bs[i] = o, o.a, o.b
		if p.Layout == Transposed {
			bs[i] = transpose(bs[i], p.K, p.N)
		}
	}
	k.stackA = newStack(n, p.M, p.LDA, c.batch.StrideA, guardRows(p.LDA))
	var err error
	if p.Scaled() {
		return k, c.drawScaled(k, seed)
	}
	if k.hostA, err = k.stackA.lay(p.DType, as, p.K); err != nil {
		return nil, err
	}
	if p.Quantized() {
		if k.hostB, err = c.quantize(check, &k.operands[0], bs[0]); err != nil {
			return nil, err
		}
		k.stackB = stack{products: 1, rows: 1, ld: len(k.hostB), pitch: 1}
		return k, nil
	}
	k.stackB = newStack(n, rowsB, p.LDB, c.batch.StrideB, 0)
	k.hostB, err = k.stackB.lay(p.DType, bs, colsB)
	return k, err
}

// references multiplies the operands in float64 on first use.
func (k *gemmKind) references(p Task) []gemmReference {
	for _, o := range k.operands {
		k.refs = append(k.refs, k.reference(p, o))
		if k.check == CheckSubnormals && takesSubnormalsForZero(p.DType) {
			k.without = append(k.without, k.reference(p, o.withoutSubnormals(p.DType)))
		}
	}
	k.operands = nil
	return k.refs
}

func (k *gemmKind) reference(p Task, o checkOperands) gemmReference {
	exact := k.check == CheckIntegers && !k.half && !k.rounded || p.DType == INT8
	want, magnitude := o.product(p.Shape(), !exact)
	for i, v := range want {
		if exact {
			want[i] = roundTo(p.DType.Output(), v)
		} else {
			magnitude[i] = k.widen(p, v, magnitude[i], ErrorBound(p, v, magnitude[i]))
		}
	}
	if k.rounded {
		for i, e := range o.roundingErrors(p.Shape()) {
			magnitude[i] += e
		}
	}
	return gemmReference{want, magnitude}
}

func (c *GemmCheck) output() stack {
	return newStack(c.batch.Products, c.p.M, c.p.LDC, c.batch.StrideC, guardRows(c.p.LDC))
}
