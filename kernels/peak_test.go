package kernels

import (
	"math"
	"testing"
)

func TestParsePeak(t *testing.T) {
	for _, c := range []struct {
		text  string
		dtype DType
		flops float64 // 0 if the text is invalid
	}{
		{"bf16=989e12", BF16, 989e12},
		{"bf16=989TFLOP/s", BF16, 989e12},
		{"float16 = 989.5 TFLOPS", FP16, 989.5e12},
		{"fp8=1.979 PFLOP/s", FP8, 1.979e15},
		{"int8=130TOPS", INT8, 130e12},
		{"fp32=200gflop/s", FP32, 200e9},
		{"fp32=2e11FLOP/s", FP32, 2e11},
		{"bf16=989", BF16, 0}, {"bf16", "", 0}, {"989e12", "", 0}, {"bf61=1e12", "", 0}, {"bf16=", BF16, 0}, {"bf16=-1e12", BF16, 0},
		{"bf16=NaN", BF16, 0}, {"bf16=inf", BF16, 0}, {"bf16=1e300PFLOP/s", BF16, 0}, {"bf16=989 TB/s", BF16, 0},
	} {
		p, err := ParsePeak(c.text)
		if (err == nil) != (c.flops > 0) {
			t.Errorf("%q: %+v, %v", c.text, p, err)
		}
		if err == nil && (p.DType != c.dtype || math.Abs(p.FLOPS/c.flops-1) > 1e-12 || p.Origin != Given) {
			t.Errorf("%q: %+v, want %s of %g", c.text, p, c.dtype, c.flops)
		}
	}
}

func FuzzParsePeak(f *testing.F) {
	f.Add("bf16=989e12")
	f.Add("fp8=1.979 PFLOP/s")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePeak(s)
		if err == nil && !(p.FLOPS >= leastGivenPeak && p.FLOPS <= mostGivenPeak && p.DType.Size() > 0) {
			t.Errorf("%q: %+v", s, p)
		}
	})
}
