package kernels

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// Subnormals says what a kernel makes of subnormal operands. The correctness check measures it.
type Subnormals string

// What kernels make of subnormal operands.
const (
	// SubnormalsKept: they count as what they are.
	SubnormalsKept Subnormals = "kept"
	// SubnormalsZero: they count as zero, as dot instructions of bf16 (VDPBF16PS, TDPBF16PS)
	// take them.
	SubnormalsZero Subnormals = "zero"
	// SubnormalsMixed: it depends on the product, or on the operand.
	SubnormalsMixed Subnormals = "mixed"
)

// and is what holds for both of two products.
func (s Subnormals) and(t Subnormals) Subnormals {
	switch {
	case s == "" || s == t:
		return t
	case t == "":
		return s
	}
	return SubnormalsMixed
}

// takesSubnormalsForZero says whether a kernel may take subnormal operands of a type for zero: where
// they lie below 2^-126, but not where weights of models are among them, in fp16 and fp8.
func takesSubnormalsForZero(d DType) bool { return d == FP32 || d == TF32 || d == BF16 }

// exactInFP32 is from where on whole numbers have gaps in fp32.
const exactInFP32 = 1 << 24

// largestProduct is that of int8 but for -128 · -128.
const largestProduct = 127 * 127

// checksOf are the checks of a problem with ordinary operands.
func checksOf(p Problem) []CheckStep {
	checks := []CheckStep{CheckIntegers, CheckAccuracy}
	if p.DType == INT8 {
		checks = append(checks, CheckExtremes)
		if p.K > exactInFP32/largestProduct {
			checks = append(checks, CheckOneSign)
		}
	}
	return checks
}

// Special is the check of the same problem with special operands in the place of ordinary ones:
// infinities and NaN, sums that overflow the output type, and subnormal operands. Of a type
// that has none of them nothing is checked.
func (c *GemmCheck) Special() *GemmCheck {
	s := *c
	s.kinds, s.sums = map[CheckStep]*gemmKind{}, nil
	s.checks = nil
	if c.p.DType == INT8 {
		return &s
	}
	s.checks = append(s.checks, CheckNonFinite)
	if c.p.DType != FP8 { // its output, bf16, is never left
		s.checks = append(s.checks, CheckOverflow)
	}
	if c.format == (WeightFormat{}) {
		s.checks = append(s.checks, CheckSubnormals)
	}
	return &s
}

// SpecialProblems is the standing table of problems with special operands, see [GemmCheck.Special], of
// type d; of int8, products with sums that fp32 does not hold. It is short: a kernel treats
// numbers alike at every size, but for tails and for the code of few rows.
func SpecialProblems(d DType) []Problem {
	var out []Problem
	add := func(m, n, k int, layout Layout, longer int) {
		p := Problem{Shape: Shape{M: m, N: n, K: k}, DType: d, BLayout: layout}
		if longer > 0 {
			_, cols := p.sidesOfB()
			p.LDA, p.LDB, p.LDC = k+longer, cols+longer, n+longer
		}
		out = append(out, p)
	}
	if d == INT8 {
		add(1, 96, 4096, RowMajor, 0)
		add(5, 33, 1041, Transposed, 3)
		add(16, 16, 4096, Transposed, 0)
		add(64, 48, 4096, RowMajor, 0)
		return out
	}
	add(1, 64, 96, RowMajor, 0)
	add(1, 130, 259, Transposed, 0)
	add(5, 40, 65, RowMajor, 3)
	add(16, 64, 128, Transposed, 0)
	add(17, 65, 63, RowMajor, 0) // rows of A with no gap, so that a tail of K borders on the next row
	add(33, 97, 131, Transposed, 5)
	add(64, 128, 256, Transposed, 0)
	add(130, 136, 520, RowMajor, 8)
	add(7, 48, 2051, Transposed, 0)
	return out
}

// SpecialBatches is the standing table of batches with special operands, of type d.
func SpecialBatches(d DType) []Batch {
	if d == INT8 {
		return nil
	}
	return []Batch{{Problem: Problem{Shape: Shape{M: 5, N: 33, K: 65}, DType: d, BLayout: Transposed}, Products: 3}}
}

// SpecialQuantised is the standing table of products with quantised weights and special activations of type d.
func SpecialQuantised(d DType) []QuantisedProblem {
	if d != FP16 && d != BF16 {
		return nil
	}
	var out []QuantisedProblem
	for _, weights := range []Quantisation{{Bits: 4, Group: 128, ZeroPoints: true}, {Bits: 8, Group: 64}} {
		for _, m := range []int{1, 9, 70} {
			p := Problem{Shape: Shape{M: m, N: 136, K: 512}, DType: d, BLayout: Transposed}
			out = append(out, QuantisedProblem{p, weights.format(d, p.K)})
		}
	}
	return out
}

// specialOperands draws the operands of a special check. Of quantised weights, which are
// quantised from b, b is normal.
func specialOperands(p Problem, check CheckStep, quantised bool, src *rand.Rand) checkOperands {
	o := checkOperands{a: make([]float64, p.M*p.K), b: make([]float64, p.K*p.N)}
	row := func(i int) vector { return vector{o.a[i*p.K:][:p.K], 1} }
	col := func(j int) vector { return vector{o.b[j:], p.N} }
	for i := range p.M {
		switch check {
		case CheckNonFinite:
			row(i).nonFinite((i+p.K)%6, src)
		case CheckOverflow:
			row(i).overflowing(p, []int{3, 0, 1, 2}[i%4], src)
		case CheckSubnormals:
			row(i).subnormal(p.DType, (i+1)%3, src)
		}
	}
	for j := range p.N {
		switch {
		case quantised:
			col(j).fill(src.NormFloat64)
		case check == CheckNonFinite:
			col(j).nonFinite(max(0, j%16-10), src)
		case check == CheckOverflow:
			col(j).overflowing(p, j%2, src)
		default:
			col(j).subnormal(p.DType, j%3, src)
		}
	}
	for _, v := range [][]float64{o.a, o.b} {
		for i := range v {
			v[i] = roundTo(p.DType, v[i])
		}
	}
	return o
}

// vector is a row of A or a column of B: elements that lie stride apart.
type vector struct {
	v      []float64
	stride int
}

func (x vector) len() int             { return (len(x.v) + x.stride - 1) / x.stride }
func (x vector) set(k int, v float64) { x.v[k*x.stride] = v }

func (x vector) fill(draw func() float64) {
	for k := range x.len() {
		x.set(k, draw())
	}
}

// nonFinite has normal elements, some of them zero, since 0 · NaN and 0 · Inf are NaN; in the kinds 1
// to 5, a NaN at the beginning, +Inf at the end, a NaN and -Inf anywhere, or infinities of either sign.
func (x vector) nonFinite(kind int, src *rand.Rand) {
	x.fill(func() float64 {
		if src.IntN(4) == 0 {
			return 0
		}
		return src.NormFloat64()
	})
	last := x.len() - 1
	anywhere := src.IntN(last + 1)
	switch kind {
	case 1:
		x.set(0, math.NaN())
	case 2:
		x.set(last, math.Inf(1))
	case 3:
		x.set(anywhere, math.NaN())
	case 4:
		x.set(anywhere, math.Inf(-1))
	case 5:
		x.set(0, math.Inf(1))
		x.set(last, math.Inf(-1))
	}
}

// overflowing has elements of one sign: in kind 0 so small that sums with any other vector stay finite, in
// kind 1 so large that those with another one of kind 1 or 2 overflow, in kind 2 as large and
// negative. Kind 3 overflows half way alone: elements as large as in kind 1 of which the second
// half is negative, where the accumulator holds more than the output type, else kind 0.
func (x vector) overflowing(p Problem, kind int, src *rand.Rand) {
	large := 0x1p64
	if p.DType.Output() == FP16 {
		large = 0x1p8
	} else if kind == 3 {
		kind = 0
	}
	small := math.Ldexp(1, -bits.Len(uint(p.K)))
	half := x.len() / 2
	drawn := make([]float64, x.len())
	for k := range drawn {
		// Halves are alike, so that those of kind 3 cancel where the other vector's do.
		if drawn[k] = 1 + float64(src.IntN(4))/4; k >= half && k < 2*half {
			drawn[k] = drawn[k-half]
		}
		v := drawn[k] * large
		switch {
		case kind == 0:
			v = drawn[k] * small
		case kind == 3 && k == 2*half:
			v = 0
		case kind == 2 || kind == 3 && k >= half:
			v = -v
		}
		x.set(k, v)
	}
}

// subnormal has normal elements, in kind 1 subnormal ones, and in kind 2 such large ones that
// products with subnormal ones count.
func (x vector) subnormal(d DType, kind int, src *rand.Rand) {
	step, count, large := smallestStep(FP32), 1<<23, 0x1p55
	switch d {
	case TF32: // of which 10 bits are left
		step, count = 0x1p-136, 1<<10
	case BF16:
		step, count = smallestStep(BF16), 1<<7
	case FP16:
		step, count, large = smallestStep(FP16), 1<<10, 0x1p5
	case FP8:
		step, count, large = 0x1p-9, 1<<3, 0x1p6
	}
	x.fill(func() float64 {
		sign := float64(2*src.IntN(2) - 1)
		switch kind {
		case 1:
			return sign * step * float64(1+src.IntN(count-1))
		case 2:
			return sign * large * (1 + src.Float64())
		}
		return src.NormFloat64()
	})
}

// withoutSubnormals is the same operands with zero in the place of subnormal ones.
func (o checkOperands) withoutSubnormals(d DType) checkOperands {
	least := 0x1p-126
	switch d {
	case FP16:
		least = 0x1p-14
	case FP8:
		least = 0x1p-6
	}
	clean := func(v []float64) []float64 {
		out := make([]float64, len(v))
		for i, x := range v {
			if !(math.Abs(x) < least) { // NaN stays
				out[i] = x
			}
		}
		return out
	}
	return checkOperands{clean(o.a), clean(o.b)}
}
