package kernels

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// Subnormals is how a kernel treats subnormal operands, measured by the correctness check.
type Subnormals string

// How kernels treat subnormal operands.
const (
	// SubnormalsKept: they keep their value.
	SubnormalsKept Subnormals = "kept"
	// SubnormalsZero: they count as zero, as in bf16 dot instructions (VDPBF16PS, TDPBF16PS).
	SubnormalsZero Subnormals = "zero"
	// SubnormalsMixed: it depends on the product or operand.
	SubnormalsMixed Subnormals = "mixed"
)

func (s Subnormals) and(t Subnormals) Subnormals {
	switch {
	case s == "" || s == t:
		return t
	case t == "":
		return s
	}
	return SubnormalsMixed
}

// takesSubnormalsForZero reports whether kernels may flush a type's subnormals: where they are below 2^-126,
// but not in fp16 and fp8, where model weights may be subnormal.
func takesSubnormalsForZero(d DType) bool { return d == FP32 || d == TF32 || d == BF16 }

// exactInFP32: integers above it have gaps in fp32.
const exactInFP32 = 1 << 24

// largestProduct is the largest int8 product except -128 · -128.
const largestProduct = 127 * 127

func checksOf(p Task) []CheckStep {
	checks := []CheckStep{CheckIntegers, CheckAccuracy}
	if p.Weights.levels() != nil {
		checks = checks[1:] // levels are no whole numbers
	}
	if p.DType == INT8 {
		checks = append(checks, CheckExtremes)
		if p.K > exactInFP32/largestProduct {
			checks = append(checks, CheckOneSign)
		}
	}
	if p.Scaled() && p.K >= promotedFrom {
		checks = append(checks, CheckOneSign)
	}
	return checks
}

// Special returns the check with special operands: infinities and NaN, sums that overflow the output type,
// and subnormals. For a type without them it checks nothing.
func (c *GemmCheck) Special() *GemmCheck {
	s := c.variant()
	s.checks = nil
	if c.p.DType == INT8 {
		return s
	}
	s.checks = append(s.checks, CheckNonFinite)
	if c.p.DType != FP8 { // the bf16 output can't overflow
		s.checks = append(s.checks, CheckOverflow)
	}
	if !c.p.Quantized() {
		s.checks = append(s.checks, CheckSubnormals)
	}
	return s
}

// SpecialProblems returns the standard problems for [GemmCheck.Special]; for int8, sums that fp32 can't hold.
// The list is short: kernels treat special values alike at every size, except in tails and few-row code.
func SpecialProblems(d DType) []Task {
	var out []Task
	add := func(m, n, k int, layout Layout, longer int) {
		p := Task{Subject: Product(d, n, k).In(layout), M: m}
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
	add(17, 65, 63, RowMajor, 0) // A without row gaps: a K tail borders on the next row
	add(33, 97, 131, Transposed, 5)
	add(64, 128, 256, Transposed, 0)
	add(130, 136, 520, RowMajor, 8)
	add(7, 48, 2051, Transposed, 0)
	return out
}

// SpecialBatches returns the standard batches with special operands of type d.
func SpecialBatches(d DType) []Task {
	if d == INT8 {
		return nil
	}
	return []Task{Task{Subject: Linear(d, 33, 65), M: 5}.Batch(3)}
}

// SpecialQuantized returns the standard problems with quantized weights and special activations of type d.
func SpecialQuantized(d DType) []Task {
	if d != FP16 && d != BF16 {
		return nil
	}
	var out []Task
	for _, weights := range []WeightFormat{IntegerWeights(4, 128, true), IntegerWeights(8, 64, false)} {
		for _, m := range []int{1, 9, 70} {
			out = append(out, Task{Subject: Linear(d, 136, 512), M: m}.WithWeights(weights.with(d, 512)))
		}
	}
	return out
}

// specialOperands draws the operands of a special check. For quantized weights b is normal.
func specialOperands(p Task, check CheckStep, quantized bool, src *rand.Rand) checkOperands {
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
		case quantized:
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

// vector is a row of A or a column of B: elements stride apart.
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

// nonFinite sets normal elements, some zero because 0 · NaN and 0 · Inf are NaN. Kinds 1 to 5 add a NaN at
// the start, +Inf at the end, a NaN or -Inf anywhere, or infinities of either sign.
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

// overflowing sets elements of one sign. Kind 0 is so small that sums with any vector stay finite. Kinds 1
// and 2 (negative) are so large that their sums with each other overflow. Kind 3 overflows only half way: its
// second half is negative. It needs an accumulator wider than the output type, otherwise it is kind 0.
func (x vector) overflowing(p Task, kind int, src *rand.Rand) {
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
		// Equal halves make the sums of kind 3 cancel.
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

// subnormal sets normal elements, in kind 1 subnormal ones, and in kind 2 ones so large that products with
// subnormals matter.
func (x vector) subnormal(d DType, kind int, src *rand.Rand) {
	step, count, large := smallestStep(FP32), 1<<23, 0x1p55
	switch d {
	case TF32:
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
