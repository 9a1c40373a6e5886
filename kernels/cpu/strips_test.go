package cpu

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"pgregory.net/rapid"
)

// stripISAs are the instruction sets with code of their own for strips.
var stripISAs = []string{"avx2", "avx512-core", "avx512-vnni"}

func TestGateRounded(t *testing.T) {
	checks := map[kernels.DType][]*kernels.GemmCheck{}
	for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
		for i, q := range kernels.QuantizedCheckProblems(d) {
			if q.Weights.Bits == 4 && (i%3 == 0 || !testing.Short()) {
				checks[d] = append(checks[d], checked(t)(kernels.NewGemmCheck(q, uint64(i))))
			}
		}
		for _, q := range kernels.SpecialQuantized(d) {
			if q.Weights.Bits == 4 {
				checks[d] = append(checks[d], checked(t)(kernels.NewGemmCheck(q, 1)).Special())
			}
		}
	}
	for _, isa := range stripISAs {
		if !has(detect(), isa) {
			continue
		}
		t.Run(isa, func(t *testing.T) {
			t.Setenv("GEMMAUDIT_ISA", isa)
			dev := open(t, 2)
			for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
				for _, check := range checks[d] {
					found, err := check.Run(t.Context(), dev, dev.gemm(roundedName))
					if err != nil || !found.Rounded {
						t.Errorf("%+v, %v, expected to pass with rounded activations", found, err)
					}
				}
			}
		})
	}
}

func TestRoundedUnsupported(t *testing.T) {
	if !has(detect(), "avx2") {
		t.Skip("this CPU has no AVX2")
	}
	dev := open(t, 1)
	for weights, d := range map[string]kernels.DType{"int8:32": kernels.FP16, "int4:32": kernels.FP32, "plain": kernels.FP16} {
		w, err := kernels.ParseWeights(weights)
		if err != nil {
			t.Fatal(err)
		}
		p := kernels.Task{Subject: kernels.Linear(d, 64, 320), M: 1}
		if w.Bits > 0 {
			f, err := w.For(kernels.FP16, 320)
			if err != nil {
				t.Fatal(err)
			}
			p = p.WithWeights(f)
		}
		var unsupported *kernels.Unsupported
		err = dev.gemm(roundedName).Supports(p)
		if !errors.As(err, &unsupported) || !strings.Contains(unsupported.Reason, "4-bit weights") {
			t.Errorf("%s, %s: got %v", weights, d, err)
		}
	}
}

// Activations far apart, zero and subnormal: each error is below the bound of a sum in fp32 and what blocks may lose.
func TestStripActivations(t *testing.T) {
	for _, isa := range stripISAs {
		if !has(detect(), isa) {
			continue
		}
		t.Run(isa, func(t *testing.T) {
			t.Setenv("GEMMAUDIT_ISA", isa)
			dev := open(t, 2)
			rapid.Check(t, func(t *rapid.T) { stripActivations(t, dev) })
		})
	}
}

func stripActivations(t *rapid.T, dev *Device) {
	d := rapid.SampledFrom([]kernels.DType{kernels.FP16, kernels.BF16}).Draw(t, "type")
	m, n := rapid.IntRange(1, 10).Draw(t, "m"), rapid.IntRange(1, 70).Draw(t, "n")
	group := 32 * rapid.IntRange(1, 4).Draw(t, "group")
	k := group * rapid.IntRange(1, 5).Draw(t, "groups")
	f, err := kernels.IntegerWeights(4, group, rapid.Bool().Draw(t, "zeros")).For(d, k)
	if err != nil {
		t.Fatal(err)
	}
	p := kernels.Task{Subject: kernels.Linear(d, n, k), M: m}.WithWeights(f)
	name := rapid.SampledFrom([]string{"gemv", roundedName}).Draw(t, "kernel")
	low := rapid.IntRange(-40, 0).Draw(t, "smallest exponent")
	draw := rapid.Custom(func(t *rapid.T) float64 {
		return math.Ldexp(rapid.Float64Range(-2, 2).Draw(t, "x"), rapid.IntRange(low, 4).Draw(t, "exponent"))
	})
	pool := rapid.SliceOfN(draw, 1, 64).Draw(t, "a")
	a := make([]float64, m*k)
	for i := range a {
		a[i] = pool[(i*7+i/k)%len(pool)]
	}
	encoded := make([]byte, len(a)*d.Size())
	if err := kernels.Encode(d, a, encoded); err != nil {
		t.Fatal(err)
	}
	if err := kernels.Decode(d, encoded, a); err != nil {
		t.Fatal(err)
	}
	got, weights := multiplied(t, dev, name, p, encoded)
	for i := range m {
		row := a[i*k:][:k]
		steps := kernels.RoundingSteps(row)
		for j := range n {
			var sum, magnitude, lost float64
			for l, x := range row {
				w := weights[j*k+l]
				sum += x * w
				magnitude += math.Abs(x * w)
				lost += steps[l] * 127 * 0x1p-23 * math.Abs(w)
			}
			bound := kernels.ErrorBound(p, sum, magnitude) + lost
			if name == roundedName {
				bound = kernels.ErrorBound(p, sum, magnitude)
				for l, s := range steps {
					bound += s * (0.5 + 1e-5) * math.Abs(weights[j*k+l])
				}
			}
			if e := math.Abs(got[i*n+j] - sum); !(e <= bound) {
				t.Fatalf("%s %v: element (%d,%d) is %g, expected %g ± %g", name, p, i, j, got[i*n+j], sum, bound)
			}
		}
	}
}

// multiplied returns C and the weights [N,K] of a task with drawn weights.
func multiplied(t *rapid.T, dev *Device, kernel string, p kernels.Task, encoded []byte) (c, weights []float64) {
	p, err := p.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	fail := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	alloc := func(bytes int64) kernels.Buffer {
		b, err := dev.Alloc(bytes)
		fail(err)
		t.Cleanup(func() { b.Close() })
		return b
	}
	in, raw, out := alloc(int64(len(encoded))), alloc(p.Raw().Bytes), alloc(int64(p.M*p.N*p.DType.Size()))
	fail(in.Upload(0, encoded))
	values := make([]float64, p.N*p.K)
	for i := range values {
		values[i] = math.Sin(float64(i)*1.7) * (1 + math.Cos(float64(i)*0.3))
	}
	m, err := kernels.Quantize(p.Weights, p.N, p.K, values)
	fail(err)
	fail(raw.Upload(0, m.Raw()))
	g := dev.gemm(kernel)
	w, err := g.Prepare(p, raw)
	fail(err)
	defer w.Close()
	l, err := g.Bind(p, kernels.Operand{Buffer: in}, w, kernels.Operand{Buffer: out})
	fail(err)
	_, err = dev.Execute(t.Context(), []kernels.Launch{l}, 1)
	fail(err)
	result := make([]byte, p.M*p.N*p.DType.Size())
	fail(out.Download(0, result))
	c = make([]float64, p.M*p.N)
	fail(kernels.Decode(p.DType, result, c))
	return c, m.Values(kernels.FP32)
}
