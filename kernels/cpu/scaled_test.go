package cpu

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestGateScaled(t *testing.T) {
	problems := kernels.QuantizedCheckProblems(kernels.FP8)
	checks := make([]*kernels.GemmCheck, len(problems))
	for i, q := range problems {
		checks[i] = checked(t)(kernels.NewGemmCheck(q, uint64(i)))
	}
	onEachISA(t, func(t *testing.T, isa string) {
		dev := open(t, 2)
		for name, every := range map[string]int{"scaled": 1, "auto": 7, "naive": 3} {
			if name != "scaled" && isa != "portable" || isa == "amx" {
				continue // the same code
			}
			most := 0.0
			for i, check := range checks {
				if i%every != 0 || testing.Short() && i/every%3 > 0 {
					continue
				}
				margin, err := check.Margin(t.Context(), dev, dev.gemm(name))
				if err != nil {
					t.Error(err)
				}
				most = max(most, margin)
			}
			if most > 0.3 {
				t.Errorf("%s uses %.2f of the bound, expected fp32 sums", name, most)
			}
		}
	})
}

// NaN of every operand reaches its row, column or element, and no other.
func TestScaledNaN(t *testing.T) {
	onEachISA(t, func(t *testing.T, _ string) {
		dev := open(t, 1)
		f := kernels.WeightFormat{Type: "fp8", Bits: 8, GroupK: 32, GroupN: 8, Scale: kernels.FP32}
		p := done(kernels.Task{Subject: kernels.Linear(kernels.FP8, 40, 70), M: 5}.WithWeights(f).Normalized())(t)
		of, _ := p.ActivationScales()
		in := make([]byte, of.At+4*of.Extent(p.M))
		raw := make([]byte, p.Stored(1))
		for i := range p.M * p.K {
			in[i] = 0x38 // 1
		}
		for i := range p.N * p.K {
			raw[i] = 0xb8 // -1
		}
		for at := of.At; at < len(in); at += 4 {
			copy(in[at:], []byte{0, 0, 0, 0x40}) // 2
		}
		for at := p.Raw().Scales; at+4 <= int64(len(raw)); at += 4 {
			copy(raw[at:], []byte{0, 0, 0, 0x3f}) // 0.5
		}
		in[2*p.K+69], raw[33*p.K+1] = 0x7f, 0xff
		for _, name := range []string{"scaled", "naive"} {
			out := scaledProduct(t, dev, dev.gemm(name), p, in, raw)
			for i, v := range out {
				if row, col := i/p.N, i%p.N; row == 2 || col == 33 {
					if !math.IsNaN(v) {
						t.Errorf("%s: element (%d,%d) is %g, expected NaN", name, row, col, v)
					}
				} else if v != -70 {
					t.Errorf("%s: element (%d,%d) is %g, expected -70", name, row, col, v)
				}
			}
		}
	})
}

// scaledProduct computes a task of a tight A and C.
func scaledProduct(t *testing.T, dev *Device, k kernels.Kernel, p kernels.Task, in, raw []byte) []float64 {
	t.Helper()
	a, b, c := done(dev.Alloc(int64(len(in))))(t), done(dev.Alloc(int64(len(raw))))(t), done(dev.Alloc(int64(2*p.M*p.N)))(t)
	if err := errors.Join(a.Upload(0, in), b.Upload(0, raw)); err != nil {
		t.Fatal(err)
	}
	w := done(k.Prepare(p, b))(t)
	l := done(k.Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c}))(t)
	if _, err := dev.Execute(t.Context(), []kernels.Launch{l}, 1); err != nil {
		t.Fatal(err)
	}
	bits, out := make([]byte, 2*p.M*p.N), make([]float64, p.M*p.N)
	if err := errors.Join(c.Download(0, bits), kernels.Decode(kernels.BF16, bits, out)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), a.Close(), b.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	return out
}

// Elements of fp8 are those of fp32, rounded.
func TestFillFP8(t *testing.T) {
	dev := open(t, 2)
	const n = 1 << 17
	for _, dist := range []kernels.Distribution{kernels.Normal, kernels.Integers} {
		wide, narrow := done(dev.Alloc(4*n))(t), done(dev.Alloc(n))(t)
		codes, bits, values := make([]byte, n), make([]byte, 4*n), make([]float64, n)
		if err := errors.Join(wide.Fill(dist, kernels.FP32, n, 5), narrow.Fill(dist, kernels.FP8, n, 5), wide.Download(0, bits),
			narrow.Download(0, codes), kernels.Decode(kernels.FP32, bits, values)); err != nil {
			t.Fatal(err)
		}
		for i, v := range values {
			if codes[i] != kernels.EncodeFP8(v) {
				t.Fatalf("%s: element %d is %g as fp8, %g as fp32", dist, i, kernels.DecodeFP8(codes[i]), v)
			}
		}
		if err := errors.Join(wide.Close(), narrow.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestScaledRefusals(t *testing.T) {
	dev := open(t, 1)
	block := kernels.WeightFormat{Type: "fp8", Bits: 8, GroupK: 128, GroupN: 128, Scale: kernels.FP32}
	good := kernels.Task{Subject: kernels.Linear(kernels.FP8, 64, 256), M: 3}.WithWeights(block)
	for name, tt := range map[string]struct {
		kernel string
		change func(*kernels.Task)
		want   string
	}{
		"another kernel": {"tiled", func(*kernels.Task) {}, "no activations with scales"},
		"plain weights":  {"scaled", func(p *kernels.Task) { p.Weights = kernels.WeightFormat{} }, "fp8 weights with scales"},
		"plain fp8":      {"auto", func(p *kernels.Task) { p.Weights = kernels.WeightFormat{} }, "CPU kernels compute fp32"},
		"mxfp8": {"scaled", func(p *kernels.Task) {
			p.Weights = kernels.WeightFormat{Type: "mxfp8", Bits: 8, GroupK: 32, GroupN: 1, Scale: kernels.E8M0}
		}, "takes mxfp8"},
		"nvfp4": {"auto", func(p *kernels.Task) {
			p.DType = kernels.FP4
			p.Weights = kernels.WeightFormat{Type: "nvfp4", Bits: 4, GroupK: 16, GroupN: 1, Scale: kernels.FP8}
		}, "computes fp4"},
		"a long k": {"scaled", func(p *kernels.Task) { p.K = 4 << 20 }, "does not fit"},
		"integers": {"scaled", func(p *kernels.Task) {
			p.DType, p.Weights = kernels.BF16, kernels.WeightFormat{Type: "int4", Bits: 4, GroupK: 128, GroupN: 1, Scale: kernels.BF16}
		}, "quantized weights but fp8"},
	} {
		p := good
		tt.change(&p)
		var no *kernels.Unsupported
		if err := dev.gemm(tt.kernel).Supports(p); !errors.As(err, &no) || !strings.Contains(no.Reason, tt.want) {
			t.Errorf("%s: %v, expected %q", name, err, tt.want)
		}
	}
	if err := dev.gemm("auto").Supports(good); err != nil {
		t.Error(err)
	}
}

// done returns a value, and ends the test on an error.
func done[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
