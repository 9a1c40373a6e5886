package kernels

import (
	"math"
	"strings"
	"testing"
)

func TestScaledFormats(t *testing.T) {
	const k = 4096
	for _, tt := range []struct {
		text  string
		d     DType
		whole string // the completed form
		bytes float64
		input int64 // bytes of A at M 3
	}{
		{"fp8:128x128", FP8, "fp8 g128x128 fp32", 256*k + 2*32*4, 3*k + 3*32*4},
		{"fp8:128", FP8, "fp8 g128x1 fp32", 256*k + 256*32*4, 3*k + 3*32*4},
		{"fp8:column", FP8, "fp8 g4096x1 fp32", 256*k + 256*4, 3*k + 3*4},
		{"mxfp8", FP8, "mxfp8 g32x1 e8m0", 256*k + 256*128, 3*k + 3*128},
		{"nvfp4", FP4, "nvfp4 g16x1 fp8", 256*k/2 + 256*256, 3*k/2 + 3*256},
	} {
		request, err := ParseWeights(tt.text)
		if err != nil {
			t.Error(err)
			continue
		}
		f, err := request.For(tt.d, k)
		if err != nil {
			t.Error(err)
		}
		again, err := ParseWeightFormat(f.String())
		back, ok := f.Requested(k)
		s := Linear(tt.d, 256, k)
		s.Weights = f
		if request.String() != tt.text || f.String() != tt.whole || again != f || err != nil || back != request || !ok {
			t.Errorf("%s: request %v, completed %v, read as %v (%v), requested as %v %v", tt.text, request, f, again, err, back, ok)
		}
		if !s.Scaled() || s.StoredBytes(3) != tt.bytes || s.InputBytes(3) != tt.input ||
			s.Bytes(3) != tt.bytes+float64(tt.input)+3*256*2 {
			t.Errorf("%s: %g bytes of weights, %d of input, %g of all", tt.text, s.StoredBytes(3), s.InputBytes(3), s.Bytes(3))
		}
		if s.Validate() != nil || s.FLOPs(3) != 2*3*256*k {
			t.Errorf("%s: %v, %g FLOP", tt.text, s.Validate(), s.FLOPs(3))
		}
	}
}

func TestScaledFormatsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"fp8": "the group is missing", "fp8:128x0": "is no length", "fp8:x128": "is no length",
		"fp8:128x128:zero": "fp8 has no zero points", "int4:128x128": "share no scales", "mxfp8:32": "groups of one length",
	} {
		if _, err := ParseWeights(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
	block, _ := ParseWeights("fp8:128x128")
	if _, err := block.For(BF16, 128); err == nil || !strings.Contains(err.Error(), "activations of bf16, expected fp8") {
		t.Errorf("bf16: %v", err)
	}
	int4, _ := ParseWeights("int4:128")
	if _, err := int4.For(FP8, 128); err == nil {
		t.Error("int4 with fp8 activations is taken")
	}
	for name, change := range map[string]func(*Task){
		"scales inside A":  func(p *Task) { p.ScalesAt = 2*256 - 1 },
		"groups too close": func(p *Task) { p.LDScales = 1 },
		"layout kn":        func(p *Task) { p.Layout = RowMajor },
		"no scales":        func(p *Task) { p.Weights, p.LDScales = WeightFormat{}, 2 },
		"a batch":          func(p *Task) { p.Products = 2 },
		"scales of bf16":   func(p *Task) { p.Weights.Scale = BF16 },
	} {
		p := Task{Subject: Linear(FP8, 64, 256), M: 2}.WithWeights(block.with(FP8, 256))
		if _, err := p.Normalized(); err != nil {
			t.Fatal(err)
		}
		change(&p)
		if _, err := p.Normalized(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// The scale is amax ÷ 448 in fp32, 1 for zeros; elements round to nearest even.
func TestQuantizeFP8(t *testing.T) {
	f := WeightFormat{Type: "fp8", Bits: 8, GroupK: 2, GroupN: 2, Scale: FP32}
	values := []float64{448, 1, 0, 0, 3,
		-17, 19, 0, 0, -6,
		0.1, 0.3, 1e-30, 5, 1}
	m, err := Quantize(f, 3, 5, values)
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{1, 1, float64(float32(6) / 448), float64(float32(0.3) / 448), float64(float32(5) / 448), float64(float32(1) / 448)}
	for i, s := range m.Scales {
		if s != want[i] {
			t.Errorf("scale %d is %g, expected %g", i, s, want[i])
		}
	}
	got := m.Values(FP32)
	for i, v := range map[int]float64{0: 448, 1: 1, 5: -16, 6: 20, 9: -448 * want[2], 11: 448 * want[3], 14: 448 * want[5]} {
		if got[i] != v {
			t.Errorf("value %d is %g, expected %g", i, got[i], v)
		}
	}
	values[7] = math.Inf(1)
	if _, err := Quantize(f, 3, 5, values); err == nil || !strings.Contains(err.Error(), "weight (1,2)") {
		t.Errorf("infinity: %v", err)
	}
}

func TestFillScaledWeights(t *testing.T) {
	for _, n := range []int{100, 384, 5000} { // fewer than are drawn, and more, with a block that is cut
		f := WeightFormat{Type: "fp8", Bits: 8, GroupK: 128, GroupN: 128, Scale: FP32}
		s := Linear(FP8, n, 512)
		s.Weights = f
		raw := &hostBuffer{make([]byte, s.Stored(1))}
		if err := FillWeights(raw, s, 1, Normal, 3); err != nil {
			t.Fatal(err)
		}
		columns, err := WeightColumns(raw, s, []int{0, n - 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range columns {
			sum := 0.0
			for _, x := range c {
				sum += x * x
			}
			if sum < 300 || sum > 800 {
				t.Errorf("n %d: a column of 512 has the squared length %g", n, sum)
			}
		}
	}
}
