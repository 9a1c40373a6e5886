package kernels

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Every value of every small format: decoding is exact and monotone, encoding is its inverse, and midpoints
// round to even.
func TestSmallFloatsExhaustively(t *testing.T) {
	for _, f := range []struct {
		name         string
		encode       func(float64) uint16
		decode       func(uint16) float64
		finite       uint16
		max          float64
		least, bound float64 // smallest subnormal; from where values round to infinity
		negative     uint16
	}{
		{"fp16", EncodeFP16, DecodeFP16, 0x7bff, 65504, 0x1p-24, 65520, 0x8000},
		{"bf16", EncodeBF16, DecodeBF16, 0x7f7f, 0x1.fep127, 0x1p-133, 0x1.ffp127, 0x8000},
		{"fp8", func(x float64) uint16 { return uint16(EncodeFP8(x)) },
			func(h uint16) float64 { return DecodeFP8(uint8(h)) }, 0x7e, 448, 0x1p-9, 464, 0x80},
	} {
		if got := f.decode(f.finite); got != f.max {
			t.Errorf("%s: largest is %g, want %g", f.name, got, f.max)
		}
		if got := f.decode(1); got != f.least {
			t.Errorf("%s: smallest is %g, want %g", f.name, got, f.least)
		}
		for h := uint16(0); h <= f.finite; h++ {
			for _, sign := range []uint16{0, f.negative} {
				if got := f.encode(f.decode(h | sign)); got != h|sign {
					t.Fatalf("%s: %#x came back as %#x", f.name, h|sign, got)
				}
			}
			if h == f.finite {
				break
			}
			lo, hi := f.decode(h), f.decode(h+1)
			if lo >= hi {
				t.Fatalf("%s: %#x is %g, the next %g", f.name, h, lo, hi)
			}
			mid := (lo + hi) / 2 // exact: one bit more
			for _, c := range []struct {
				x    float64
				want uint16
			}{
				{math.Nextafter(mid, lo), h}, {mid, h + h&1}, {math.Nextafter(mid, hi), h + 1},
			} {
				if got := f.encode(c.x); got != c.want {
					t.Fatalf("%s: %g (between %#x and %#x) became %#x, want %#x", f.name, c.x, h, h+1, got, c.want)
				}
				if got := f.encode(-c.x); got != c.want|f.negative {
					t.Fatalf("%s: %g became %#x, want %#x", f.name, -c.x, got, c.want|f.negative)
				}
			}
		}
		if got := f.encode(math.Nextafter(f.bound, 0)); got != f.finite {
			t.Errorf("%s: just below %g became %#x", f.name, f.bound, got)
		}
		for _, x := range []float64{math.Nextafter(f.bound, math.Inf(1)), 0x1p200, math.MaxFloat64, math.Inf(1)} {
			if got := f.decode(f.encode(x)); !math.IsInf(got, 1) && !(f.name == "fp8" && math.IsNaN(got)) {
				t.Errorf("%s: %g became %g", f.name, x, got)
			}
		}
		if !math.IsNaN(f.decode(f.encode(math.NaN()))) {
			t.Errorf("%s: NaN is lost", f.name)
		}
		if got := f.encode(math.SmallestNonzeroFloat64); got != 0 {
			t.Errorf("%s: 5e-324 became %#x", f.name, got)
		}
	}
}

func TestNaNsExhaustively(t *testing.T) {
	for h := 0; h <= 0xffff; h++ {
		if got, want := math.IsNaN(DecodeFP16(uint16(h))), h&0x7fff > 0x7c00; got != want {
			t.Fatalf("fp16 %#x: NaN is %v", h, got)
		}
		want := float64(math.Float32frombits(uint32(h) << 16))
		if got := DecodeBF16(uint16(h)); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("bf16 %#x is %g, want %g", h, got, want)
		}
	}
}

func TestRoundTF32(t *testing.T) {
	for _, c := range []struct{ x, want float64 }{
		{1, 1}, {1 + 0x1p-10, 1 + 0x1p-10}, {1 + 0x1p-11, 1}, {1 + 0x1.8p-10, 1 + 0x1p-9},
		{1 + 0x1.004p-11, 1 + 0x1p-10}, {-1 - 0x1.8p-11, -1 - 0x1p-10}, {math.Inf(-1), math.Inf(-1)},
	} {
		if got := RoundTF32(c.x); got != c.want {
			t.Errorf("RoundTF32(%x) = %x, want %x", c.x, got, c.want)
		}
	}
}

func TestEncodeDecode(t *testing.T) {
	for _, c := range []struct {
		d        DType
		in, want []float64
	}{
		{FP32, []float64{0.1, -3}, []float64{float64(float32(0.1)), -3}},
		{TF32, []float64{1 + 0x1p-11}, []float64{1}},
		{FP16, []float64{1.0 / 3}, []float64{0x1.554p-2}},
		{BF16, []float64{1.0 / 3}, []float64{0x1.56p-2}},
		{FP8, []float64{1.0 / 3}, []float64{0x1.6p-2}},
		{INT8, []float64{2.5, 3.5, -300, 300}, []float64{2, 4, -127, 127}},
		{INT32, []float64{1e12, -1e12, 7}, []float64{math.MaxInt32, math.MinInt32, 7}},
	} {
		buf := make([]byte, len(c.in)*c.d.Size())
		if err := Encode(c.d, c.in, buf); err != nil {
			t.Fatal(err)
		}
		out := make([]float64, len(c.in))
		if err := Decode(c.d, buf, out); err != nil {
			t.Fatal(err)
		}
		for i := range out {
			if out[i] != c.want[i] {
				t.Errorf("%s: %g became %g, want %g", c.d, c.in[i], out[i], c.want[i])
			}
		}
		if Encode(c.d, c.in, buf[1:]) == nil || Decode(c.d, buf[1:], out) == nil {
			t.Errorf("%s: a short buffer was accepted", c.d)
		}
	}
	if Encode("fp4", []float64{1}, make([]byte, 8)) == nil {
		t.Error("an unknown dtype was accepted")
	}
}

func TestEncodeRoundsToNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-70000, 70000).Draw(t, "x")
		h := EncodeFP16(x)
		if math.Abs(x) > 65504 {
			return
		}
		err := math.Abs(DecodeFP16(h) - x)
		for _, other := range []uint16{h - 1, h + 1} {
			if e := math.Abs(DecodeFP16(other) - x); e < err {
				t.Fatalf("%g became %g, but %g is nearer", x, DecodeFP16(h), DecodeFP16(other))
			}
		}
	})
}

// The fast path must agree with the general one.
func TestRoundIsDecodeOfEncode(t *testing.T) {
	for _, f := range []smallFloat{binary16, bfloat16, e4m3} {
		same := func(x float64) {
			if got, want := f.round(x),
				f.decode(f.encode(x)); got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != math.Signbit(want) {
				t.Errorf("%+v: %g (%#x) becomes %g, want %g", f, x, math.Float64bits(x), got, want)
			}
		}
		for e := -160; e < 160; e++ {
			for _, significand := range []float64{1, 1 + 0x1p-52, 1.5, 1 + 0x1p-8, 1 + 3*0x1p-8, 1 + 0x1p-11, 1 + 3*0x1p-11, 1 + 0x1p-4,
				1 + 3*0x1p-4, 2 - 0x1p-52, 2 - 0x1p-8, 2 - 0x1p-11} {
				same(math.Ldexp(significand, e))
				same(-math.Ldexp(significand, e))
			}
		}
		for _, x := range []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, 5e-324, 65504, 65519,
			65520, 448, 464, 465} {
			same(x)
		}
		rapid.Check(t, func(t *rapid.T) { same(rapid.Float64Range(-1e5, 1e5).Draw(t, "x")) })
	}
}
