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
// contiguous. The stored operand is B, followed by the bias [N] in the type of B if the epilogue has one. Sums, bias and
// activation are fp32; a kernel may round between the steps to the type of C, as separate launches do.
func fusedDefinition() Definition {
	return Definition{
		Name: "fused", Title: "matrix product with an epilogue", Swept: "batch", Operand: "weights", Weights: true,
		Dims: dimFused, Along: dimFused[:2], Scaled: []Dim{dimN, dimK}, DTypes: []DType{FP32, TF32, FP16, BF16},
		Pads: func(Subject) bool { return true }, Divides: Subject.OverM,
		Expected: "n and k, as in n14336k4096, and possibly m; --epilogue gives the epilogue",
		Probes:   []Dims{{N: 4096, K: 4096, Epilogue: Bias + GELU}}, Least: []Dims{{N: 1, K: 1, Epilogue: Bias + GELU}},
		FLOPs:  func(s Subject, m float64) float64 { return 2 * m * float64(s.N) * float64(s.K) },
		Input:  func(s Subject, m float64) float64 { return m * float64(s.K) },
		Output: func(s Subject, m float64) float64 { return m * float64(s.N) },
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
	if !s.Epilogue.valid() {
		return fmt.Errorf("a fused product has %v: expected %s", s.Epilogue, EpilogueExpected)
	}
	return nil
}

// normalizeFused checks a task's sizes. Operands are contiguous.
func normalizeFused(t Task) (Task, error) { return t, t.checkContiguous("fused") }

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

// fusedReference is a task's output and the error allowed for each element.
func fusedReference(t Task, in, stored []float64) (want, bound []float64) {
	return fusedProducts(t, in, stored, t.Epilogue.Of, func(n int) int { return n })
}

// activationError is an activation's own error in fp32, relative to its argument: some roundings, and approximations of
// e^x, tanh and Φ.
const activationError = 0x1p-20

// fusedProducts applies an epilogue to the product. Column n has the bias of column biasOf(n).
func fusedProducts(t Task, in, stored []float64, epilogue func(sum, bias float64) float64, biasOf func(n int) int) (want, bound []float64) {
	plain := t
	plain.Operation, plain.Epilogue = GEMM, 0
	want, bound = groupedProducts(plain, in, stored, make([]int, t.M))
	out := t.OutputType()
	slope := activations[t.Epilogue/2].slope
	for i, sum := range want {
		bias := 0.0
		if t.Epilogue.HasBias() {
			bias = stored[t.N*t.K+biasOf(i%t.N)]
		}
		want[i] = epilogue(sum, bias)
		// bound includes the rounding of the product to the output type; the sum with the bias may be rounded, too.
		before := bound[i] + out.UnitRoundoff()*math.Abs(sum+bias) + smallestStep(out)/2
		bound[i] = slope*before + activationError*math.Abs(sum+bias) + out.UnitRoundoff()*math.Abs(want[i]) + smallestStep(out)/2
	}
	return want, bound
}

// fusedCases have every epilogue, at sizes around tiles. With a small K the sums are near 0, where activations bend.
func fusedCases(dt DType) []Task {
	at := func(m, n, k int, e Epilogue, layout Layout) Task {
		return Task{Subject: Subject{DType: dt, Dims: Dims{N: n, K: k, Epilogue: e}, Layout: layout}, M: m}
	}
	out := []Task{at(1, 1, 1, Bias+ReLU, Transposed), at(1, 517, 259, Bias+GELU, Transposed), at(131, 259, 517, Bias+SiLU, Transposed)}
	sizes := []Shape{{M: 1, N: 64, K: 16}, {M: 5, N: 33, K: 3}, {M: 18, N: 97, K: 37}, {M: 33, N: 127, K: 64}}
	for i, e := range Epilogues() {
		s := sizes[i%len(sizes)]
		out = append(out, at(s.M, s.N, s.K, e, Transposed), at(2*s.M, s.N+1, s.K, e, RowMajor))
	}
	return out
}

// fusedFaults are what epilogues get wrong.
var fusedFaults = []Fault{
	{Name: "a column has the bias of the next", Compute: func(t Task, in, stored []float64) []float64 {
		out, _ := fusedProducts(t, in, stored, t.Epilogue.Of, func(n int) int { return (n + 1) % t.N })
		return out
	}},
	{Name: "the columns of a tile of 32 have the bias of the first tile", Compute: func(t Task, in, stored []float64) []float64 {
		out, _ := fusedProducts(t, in, stored, t.Epilogue.Of, func(n int) int { return n % 32 })
		return out
	}},
	{Name: "the activation comes before the bias", Compute: func(t Task, in, stored []float64) []float64 {
		out, _ := fusedProducts(t, in, stored, func(sum, bias float64) float64 {
			sum = t.Epilogue.Activation().Of(sum, 0)
			if t.Epilogue.HasBias() {
				sum += bias
			}
			return sum
		}, func(n int) int { return n })
		return out
	}},
	{Name: "there is no bias", Compute: func(t Task, in, stored []float64) []float64 {
		out, _ := fusedProducts(t, in, stored, func(sum, _ float64) float64 { return t.Epilogue.Activation().Of(sum, 0) },
			func(n int) int { return n })
		return out
	}},
	{Name: "there is no activation", Compute: func(t Task, in, stored []float64) []float64 {
		out, _ := fusedProducts(t, in, stored, func(sum, bias float64) float64 { return sum + bias }, func(n int) int { return n })
		return out
	}},
	{Name: "each part of a split K has the bias", Compute: func(t Task, in, stored []float64) []float64 {
		out, _ := fusedProducts(t, in, stored, func(sum, bias float64) float64 { return t.Epilogue.Of(sum+bias, bias) },
			func(n int) int { return n })
		return out
	}},
}
