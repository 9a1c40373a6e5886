package kernels

import (
	"fmt"
	"math"
)

var dimFused = []Dim{
	dimN, dimK,
	{Name: epilogueName, Optional: true, In: func(d *Dims) *int { return (*int)(&d.Epilogue) },
		Word: func(v int) string { return Epilogue(v).String() }},
}

// fusedDefinition defines products with an epilogue: C = epilogue(A·B), with A [M,K], B [N,K] or [K,N], and C [M,N]
// contiguous; C of a gated product is [M,N/2]. The stored operand is B, followed by the bias [N] in the type of B if the epilogue
// has one. A residual lies behind A: see [Task.ResidualAt]. Sums, bias and activation are fp32; a kernel may round between the
// steps to the type of C, as separate launches do.
func fusedDefinition() Definition {
	return Definition{
		Name: "fused", Title: "matrix product with an epilogue", Swept: "batch", Operand: "weights", Weights: true,
		Dims: dimFused, Along: dimFused[:2], Scaled: []Dim{dimN, dimK}, DTypes: []DType{FP32, TF32, FP16, BF16},
		Pads: func(Subject) bool { return true }, Divides: Subject.OverM,
		Expected: "n and k, as in n14336k4096, and possibly m; --epilogue gives the epilogue",
		Probes:   []Dims{{N: 4096, K: 4096, Epilogue: Bias + GELU}}, Least: []Dims{{N: 1, K: 1, Epilogue: Bias + GELU}},
		FLOPs:  func(s Subject, m float64) float64 { return 2 * m * float64(s.N) * float64(s.K) },
		Input:  func(s Subject, m float64) float64 { return m * float64(s.K) },
		Output: func(s Subject, m float64) float64 { return m * float64(s.OutputColumns()) },
		Residual: func(s Subject, m float64) float64 {
			if s.Epilogue.HasResidual() {
				return m * float64(s.N)
			}
			return 0
		},
		Stored: func(s Subject, _ float64) float64 {
			bits := s.weightBits()
			if s.Epilogue.HasBias() {
				bits += float64(s.N) * float64(s.DType.Bits())
			}
			return bits
		},
		Ladder: gemmLadder,
	}
}

func checkEpilogue(s Subject) error {
	switch {
	case !s.Epilogue.valid():
		return fmt.Errorf("a fused product has %v: expected %s", s.Epilogue, EpilogueExpected)
	case s.Epilogue.IsGated() && s.N%2 != 0 && s.Along.Dimension != dimN.Name:
		return fmt.Errorf("n is %d, expected an even number: half of the columns are gates", s.N)
	}
	return nil
}

// OutputColumns returns the columns of a product's C: N, or half of it if the product is gated.
func (s Subject) OutputColumns() int {
	if s.Epilogue.IsGated() {
		return s.N / 2
	}
	return s.N
}

// residualAlignment is the alignment in bytes, relative to A, of a residual whose place is not given.
const residualAlignment = 16

// normalizeFused checks a task's sizes, and places the residual behind A by default. Operands are contiguous.
func normalizeFused(t Task) (Task, error) {
	if err := t.checkContiguous("fused"); err != nil {
		return t, err
	}
	if t.Quantized() {
		return t, fmt.Errorf("%v: fused products have plain weights", t)
	}
	if !t.Epilogue.HasResidual() {
		if t.ResidualAt != 0 {
			return t, fmt.Errorf("%v: it adds no residual, and so has no place of one", t)
		}
		return t, nil
	}
	end := t.M * t.K
	if step := residualAlignment / t.DType.Size(); t.ResidualAt == 0 {
		t.ResidualAt = ceilDiv(end, step) * step
	}
	if t.ResidualAt < end {
		return t, fmt.Errorf("%v: the residual begins at element %d, expected behind A, from %d on", t, t.ResidualAt, end)
	}
	return t, nil
}

// fusedExtents is [Task.Extents] of a fused product.
func fusedExtents(t Task) (in, stored, out int64) {
	in = t.InputElements(t.M)
	if n := t.ResidualElements(t.M); n > 0 {
		in = int64(t.ResidualAt) + n
	}
	return in, t.Stored(t.M), t.OutputElements(t.M)
}

// ResidualOperand returns the residual [M,N] of a normalized task with activations a: see [Task.ResidualAt].
func (t Task) ResidualOperand(a Operand) Operand {
	return Operand{Buffer: a.Buffer, Offset: a.Offset + t.ResidualAt}
}

// Fused returns the normalized task if it is a fused product that a kernel may compute, and the same product without the
// epilogue. Otherwise the error is the reason, an [*Unsupported].
func (t Task) Fused(kernel string) (fused, product Task, err error) {
	if t.Operation != FusedGEMM {
		return t, t, t.Unsupported(kernel, "it computes fused products")
	}
	if fused, err = t.Supported(kernel, 0); err != nil {
		return t, t, err
	}
	return fused, Task{Subject: Product(t.DType, t.N, t.K).In(t.Layout), M: t.M, Threads: t.Threads, PackInside: t.PackInside,
		Part: t.Part}, nil
}

// BiasAt is the byte of the stored operand where a fused product's bias begins.
func (s Subject) BiasAt() int64 { return int64(s.N) * int64(s.K) * int64(s.DType.Size()) }

// Biases reads the bias of columns of A·B from the stored operand: zeros if the epilogue adds none.
func (s Subject) Biases(stored Buffer, columns []int) ([]float64, error) {
	out := make([]float64, len(columns))
	if !s.Epilogue.HasBias() {
		return out, nil
	}
	one := make([]byte, s.DType.Size())
	for i, j := range columns {
		if err := stored.Download(s.BiasAt()+int64(j*len(one)), one); err != nil {
			return nil, err
		}
		if err := Decode(s.DType, one, out[i:i+1]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// fusedReference is a task's output and the error allowed for each element.
func fusedReference(t Task, in, stored []float64) (want, bound []float64) {
	return fusedProducts(t, in, stored, t.fusedWay())
}

// fusedWay says which elements meet in an epilogue; faults change it.
type fusedWay struct {
	of func(sum, bias, other float64) float64
	// bias returns the column whose bias a column of A·B has; negative for none.
	bias func(column int) int
	// halves returns the columns of A·B whose gate and factor a column of C has.
	halves func(column int) (gate, up int)
	// residual returns the row and column of the residual that an element has.
	residual func(row, column int) (int, int)
}

func (t Task) fusedWay() fusedWay {
	return fusedWay{
		of:       func(sum, bias, other float64) float64 { return t.Epilogue.Of(sum+bias, other) },
		bias:     func(column int) int { return column },
		halves:   func(column int) (gate, up int) { return column, column + t.N/2 },
		residual: func(row, column int) (int, int) { return row, column },
	}
}

// activationError is an activation's own error in fp32, relative to its argument: some roundings, and approximations of
// e^x, tanh and Φ.
const activationError = 0x1p-20

// FusedElement is what meets in an element of C.
type FusedElement struct {
	// Sum is the element of A·B without a bias, Bound the error that it may have as an output: see [ErrorBound].
	Sum, Bound, Bias float64
	// Other is the element of the residual, or with its bound the sum that a gate multiplies, with OtherBias.
	Other, OtherBound, OtherBias float64
}

// Finish returns a fused product's exact element of C and the error that a kernel may have there.
func (s Subject) Finish(x FusedElement) (want, bound float64) {
	return s.finish(x, func(sum, bias, other float64) float64 { return s.Epilogue.Of(sum+bias, other) })
}

func (s Subject) finish(x FusedElement, of func(sum, bias, other float64) float64) (want, bound float64) {
	out, slope := s.OutputType(), steps[s.Epilogue/2].slope
	unit, least := out.UnitRoundoff(), smallestStep(out)/2
	other := x.Other + x.OtherBias
	want = of(x.Sum, x.Bias, other)
	if math.IsInf(x.Bound, 0) || math.IsInf(x.OtherBound, 0) {
		return want, math.Inf(1)
	}
	// Bound includes the rounding of the product to the output type; the sum with the bias may be rounded, too.
	sum := math.Abs(x.Sum + x.Bias)
	before := slope*(x.Bound+unit*sum+least) + activationError*sum
	if s.Epilogue.IsGated() {
		// A kernel may round the activated gate; |silu(x)| ≤ |x|.
		off := x.OtherBound + unit*math.Abs(other) + least
		before = (before+unit*sum+least)*(math.Abs(other)+off) + sum*off
	}
	return want, before + unit*math.Abs(want) + least
}

// fusedProducts applies an epilogue to the product. in is A, followed by the residual if there is one.
func fusedProducts(t Task, in, stored []float64, way fusedWay) (want, bound []float64) {
	plain := t
	plain.Operation, plain.Epilogue, plain.ResidualAt = GEMM, 0, 0
	sums, allowed := groupedWay{groups: make([]int, t.M)}.products(plain, in, stored)
	columns := t.OutputColumns()
	biasOf := func(column int) float64 {
		if at := way.bias(column); t.Epilogue.HasBias() && at >= 0 {
			return stored[t.N*t.K+at]
		}
		return 0
	}
	want, bound = make([]float64, t.M*columns), make([]float64, t.M*columns)
	for i := range want {
		row, column := i/columns, i%columns
		at := column
		var x FusedElement
		switch {
		case t.Epilogue.HasResidual():
			r, c := way.residual(row, column)
			x.Other = in[t.M*t.K+r*t.N+c]
		case t.Epilogue.IsGated():
			gate, up := way.halves(column)
			at = gate
			x.Other, x.OtherBound, x.OtherBias = sums[row*t.N+up], allowed[row*t.N+up], biasOf(up)
		}
		x.Sum, x.Bound, x.Bias = sums[row*t.N+at], allowed[row*t.N+at], biasOf(at)
		want[i], bound[i] = t.finish(x, way.of)
	}
	return want, bound
}
