package kernels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// GemmCheck is a problem of the correctness check, or a batch or a problem with quantised weights, with
// its operands and its references, which serve any number of kernels. They are computed when a kernel
// first needs them. One goroutine may use it at a time.
type GemmCheck struct {
	p Problem // normalized
	// batch is the normalized batch; of a single problem it has one product.
	batch   Batch
	batched bool // kernels are asked for the batch, not for the problem
	// format is that of quantised weights, zero for plain ones; there is one product then.
	format WeightFormat
	// weights is the type to which their values are rounded, and sums the same check with values that are not.
	weights DType
	sums    *GemmCheck
	seed    uint64
	checks  []CheckStep
	blank   []byte // of C and its guards, before the product
	kinds   map[CheckStep]*gemmKind
}

// gemmKind is one kind of operands: those of whole numbers, normal ones, extremes, or special ones.
type gemmKind struct {
	check          CheckStep
	hostA, hostB   []byte // as a device gets them
	stackA, stackB stack
	operands       []checkOperands // of each product, until there are references
	refs           []gemmReference
	// without are the references with zero in the place of subnormal operands, where a kernel may
	// take them so.
	without []gemmReference
}

// gemmReference is what one product must give, M×N, and the error that is allowed of each element. Where
// sums are exact, none is, and bound is nil. Elements that the output type does not hold are not
// rounded to it; those that are not finite have no bound.
type gemmReference struct{ want, bound []float64 }

// NewGemmCheck is the check of one problem. The error names the field of p that can't be used.
func NewGemmCheck(p Problem, seed uint64) (*GemmCheck, error) {
	one, err := Batch{Problem: p, Products: 1}.Normalized()
	if err != nil {
		return nil, err
	}
	return newGemmCheck(GemmCheck{p: one.Problem, batch: one, seed: seed}), nil
}

// NewBatchCheck is the check of a batch, whose strides must be whole rows.
func NewBatchCheck(b Batch, seed uint64) (*GemmCheck, error) {
	b, err := b.Normalized()
	if err != nil {
		return nil, err
	}
	for _, s := range []struct {
		name       string
		stride, ld int
	}{{"A", b.StrideA, b.LDA}, {"B", b.StrideB, b.LDB}, {"C", b.StrideC, b.LDC}} {
		if s.stride%s.ld != 0 {
			return nil, fmt.Errorf("check: %v: the stride of %s is %d, expected whole rows of %d", b, s.name, s.stride, s.ld)
		}
	}
	return newGemmCheck(GemmCheck{p: b.Problem, batch: b, batched: true, seed: seed}), nil
}

// NewQuantisedCheck is the check of a problem with quantised weights.
func NewQuantisedCheck(q QuantisedProblem, seed uint64) (*GemmCheck, error) {
	q, err := q.Normalized()
	if err != nil {
		return nil, err
	}
	one, err := Batch{Problem: q.Problem, Products: 1}.Normalized()
	if err != nil {
		return nil, err
	}
	return newGemmCheck(GemmCheck{p: q.Problem, batch: one, format: q.Weights, weights: q.DType, seed: seed}), nil
}

func newGemmCheck(c GemmCheck) *GemmCheck {
	c.blank = bytes.Repeat(outputPoison(c.p.DType.Output()), c.output().elements())
	c.kinds = map[CheckStep]*gemmKind{}
	c.checks = checksOf(c.p)
	return &c
}

// CheckResult is what a check found of a kernel that passes it.
type CheckResult struct {
	Margin     float64 // see [CheckMargin]
	Subnormals Subnormals
}

// Margin runs the problem on g, which is a [Batcher] where it is a batch and a [QuantisedGemm] where its
// weights are quantised. It is [CheckMargin] with operands that are drawn once.
func (c *GemmCheck) Margin(ctx context.Context, d Device, g Gemm) (float64, error) {
	found, err := c.Run(ctx, d, g)
	return found.Margin, err
}

// Run is [GemmCheck.Margin] that also tells what becomes of subnormal operands, where the check has some.
func (c *GemmCheck) Run(ctx context.Context, d Device, g Gemm) (CheckResult, error) {
	if err := c.supported(g); err != nil {
		return CheckResult{}, err
	}
	if s, ok := g.(SumScaler); ok && c.format != (WeightFormat{}) && s.ScalesSums(QuantisedProblem{c.p, c.format}) {
		c = c.scaled()
	}
	var found CheckResult
	for _, check := range c.checks {
		r := checkRun{GemmCheck: c, device: d, gemm: g, check: check}
		err := r.run(ctx)
		if err := errors.Join(err, r.close()); err != nil {
			return CheckResult{}, err
		}
		found.Margin = max(found.Margin, r.found.Margin)
		found.Subnormals = found.Subnormals.and(r.found.Subnormals)
	}
	return found, nil
}

// supported is why g can't be asked for the problem, or refuses it.
func (c *GemmCheck) supported(g Gemm) error {
	if c.batched {
		b, ok := g.(Batcher)
		if !ok {
			return fmt.Errorf("check: %v: kernel %s computes no batches", c.batch, g.Name())
		}
		return b.SupportsBatch(c.batch)
	}
	if c.format == (WeightFormat{}) {
		return g.Supports(c.p)
	}
	q := QuantisedProblem{c.p, c.format}
	quantised, ok := g.(QuantisedGemm)
	if !ok {
		return fmt.Errorf("check: %v: kernel %s takes no quantised weights", q, g.Name())
	}
	return quantised.SupportsQuantised(q)
}

// kind draws the operands of a check, the first time that a kernel needs them.
func (c *GemmCheck) kind(check CheckStep) (*gemmKind, error) {
	if k := c.kinds[check]; k != nil {
		return k, nil
	}
	p, n := c.p, c.batch.Products
	k := &gemmKind{check: check, operands: make([]checkOperands, n)}
	as, bs := make([][]float64, n), make([][]float64, n)
	rowsB, colsB := p.sidesOfB()
	for i := range k.operands {
		// No two products have operands in common.
		o := newCheckOperands(p, check, c.format != (WeightFormat{}), c.seed+uint64(i)*0x9e3779b97f4a7c15)
		k.operands[i], as[i], bs[i] = o, o.a, o.b
		if p.BLayout == Transposed {
			bs[i] = transpose(bs[i], p.K, p.N)
		}
	}
	k.stackA = newStack(n, p.M, p.LDA, c.batch.StrideA, guardRows(p.LDA))
	var err error
	if k.hostA, err = k.stackA.lay(p.DType, as, p.K); err != nil {
		return nil, err
	}
	if c.format != (WeightFormat{}) {
		if k.hostB, err = c.quantise(check, &k.operands[0], bs[0]); err != nil {
			return nil, err
		}
		k.stackB = stack{products: 1, rows: 1, ld: len(k.hostB), pitch: 1}
	} else {
		k.stackB = newStack(n, rowsB, p.LDB, c.batch.StrideB, 0)
		if k.hostB, err = k.stackB.lay(p.DType, bs, colsB); err != nil {
			return nil, err
		}
	}
	c.kinds[check] = k
	return k, nil
}

// references multiplies the operands in float64, the first time that a kernel gets so far.
func (k *gemmKind) references(p Problem) []gemmReference {
	for _, o := range k.operands {
		k.refs = append(k.refs, k.reference(p, o))
		if k.check == CheckSubnormals && takesSubnormalsForZero(p.DType) {
			k.without = append(k.without, k.reference(p, o.withoutSubnormals(p.DType)))
		}
	}
	k.operands = nil
	return k.refs
}

// reference is that of one product.
func (k *gemmKind) reference(p Problem, o checkOperands) gemmReference {
	exact := k.check == CheckIntegers || p.DType == INT8
	want, magnitude := o.product(p.Shape, !exact)
	for i, v := range want {
		if exact {
			want[i] = roundTo(p.DType.Output(), v)
		} else {
			magnitude[i] = ErrorBound(p, v, magnitude[i])
		}
	}
	return gemmReference{want, magnitude}
}

// size is what is computed, for people.
func (c *GemmCheck) size() fmt.Stringer {
	switch {
	case c.batched:
		return c.batch
	case c.format != (WeightFormat{}):
		return QuantisedProblem{c.p, c.format}
	}
	return c.p.Shape
}

// output is how C lies in its buffer.
func (c *GemmCheck) output() stack {
	return newStack(c.batch.Products, c.p.M, c.p.LDC, c.batch.StrideC, guardRows(c.p.LDC))
}
