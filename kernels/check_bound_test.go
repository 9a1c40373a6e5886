package kernels

import (
	"math"
	"testing"
)

// A constant ten times too large would accept kernels that keep half of the bits.
func TestErrorBoundByTerms(t *testing.T) {
	const k, flushed = 64, 64 * 0x1p-126
	for _, tt := range []struct {
		dtype            DType
		ref, sum, nought float64
	}{
		{FP32, 0x1p-24, 6 * 8 * 0x1p-24, 0x1p-150},
		{TF32, 0x1p-24, 6 * 8 * 0x1p-24, 0x1p-150},
		{FP16, 0x1p-11, 6 * 8 * 0x1p-24, 0x1p-25},
		{BF16, 0x1p-8, 6 * 8 * 0x1p-24, 0x1p-134},
		{FP8, 0x1p-8, 6 * 8 * 0x1p-18, 0x1p-134},
		{INT8, 0, 0, -flushed},
	} {
		p := Task{Subject: Product(tt.dtype, 1, k), M: 1}
		base := tt.nought + flushed
		for _, c := range []struct {
			name           string
			ref, magnitude float64
			want           float64
		}{
			{"nothing", 0, 0, base}, {"output", 1, 0, base + tt.ref}, {"negative output", -1, 0, base + tt.ref},
			{"sum", 0, 1, base + tt.sum}, {"both", 2, 3, base + 2*tt.ref + 3*tt.sum},
		} {
			if got := ErrorBound(p, c.ref, c.magnitude); math.Abs(got-c.want) > 1e-12*c.want {
				t.Errorf("%s, %s: %g, expected %g", tt.dtype, c.name, got, c.want)
			}
		}
	}
}

// Some fp16 sums leave the range half way and return to exactly zero.
func TestOverflowOnTheWay(t *testing.T) {
	for _, k := range []int{64, 65, 1000} {
		p := Task{Subject: Product(FP16, 2, k), M: 4}
		o := newCheckOperands(p, CheckOverflow, false, 3)
		var half, sum float64
		for l := range k {
			if l == k/2 {
				half = sum
			}
			sum += o.a[l] * o.b[l*p.N+1]
		}
		if half <= 65504 || sum != 0 {
			t.Errorf("k %d: %g half way and %g in the end, want an overflow and 0", k, half, sum)
		}
	}
}
