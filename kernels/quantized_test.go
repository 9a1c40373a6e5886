package kernels

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type hostQuantized struct {
	hostGemm
	swapped   bool // swaps the halves of a byte
	noZeros   bool // subtracts the middle code instead of zero points
	lateGroup bool // uses the previous group's scale
	inFP32    bool // does not round weights to the activations' type
	scales    bool // claims to scale sums and therefore does not round
	pastRaw   bool // adds memory after the raw weights
}

func (g *hostQuantized) Supports(q Task) error {
	_, err := q.Product("host", QuantizedWeights)
	return err
}

func (g *hostQuantized) ScalesSums(Task) bool { return g.scales }

func (g *hostQuantized) Prepare(q Task, raw Buffer) (Weights, error) {
	q, err := q.Normalized()
	if err != nil {
		return nil, err
	}
	mem, at, f := raw.(*hostBuffer).mem, q.Raw(), q.Weights
	code := func(from []byte, i int) float64 {
		if f.Bits == 8 {
			return float64(from[i])
		}
		half := i % 2
		if g.swapped {
			half = 1 - half
		}
		return float64(from[i/2] >> (4 * half) & 15)
	}
	d := FP32
	plain := &hostBuffer{make([]byte, q.N*q.K*d.Size())}
	for n := range q.N {
		for k := range q.K {
			group := n*(q.K/f.GroupK) + k/f.GroupK
			zero := float64(int(1) << (f.Bits - 1))
			if at.Zeros > 0 && !g.noZeros {
				zero = code(mem[at.Zeros:], group)
			}
			if g.lateGroup && k >= f.GroupK {
				group--
			}
			scale := valueAt(f.Scale, mem, int(at.Scales)+group*f.Scale.Size())
			v := (code(mem, n*q.K+k) - zero) * scale
			if g.pastRaw && n == q.N-1 && k == q.K-1 {
				v += valueAt(f.Scale, mem, int(at.Bytes)) * 0
			}
			if !g.inFP32 {
				v = roundTo(q.DType, v)
			}
			binary.LittleEndian.PutUint32(plain.mem[4*(n*q.K+k):], math.Float32bits(float32(v)))
		}
	}
	return hostWeights{Operand{Buffer: plain}}, nil
}

func (g *hostQuantized) Bind(q Task, a Operand, w Weights, c Operand, _ ...Operand) (Launch, error) {
	q, err := q.Normalized()
	if err != nil {
		return nil, err
	}
	b := w.(hostWeights).Operand
	return hostLaunch(func() error {
		for i := range q.M {
			for j := range q.N {
				sum := 0.
				for k := range q.K {
					sum += a.get(q.DType, i*q.LDA+k) * b.get(FP32, j*q.K+k)
				}
				c.put(q.DType.Output(), i*q.LDC+j, sum)
			}
		}
		return nil
	}), nil
}

func smallQuantized(d DType) []Task {
	var out []Task
	for _, q := range QuantizedCheckProblems(d) {
		if q.M*q.N*q.K < 200_000 {
			out = append(out, q)
		}
	}
	return out
}

func TestGatePassesQuantized(t *testing.T) {
	passed := 0
	for _, d := range []DType{FP16, BF16} {
		for i, q := range smallQuantized(d) {
			if testing.Short() && i%2 != 0 {
				continue
			}
			check, err := NewGemmCheck(q, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range []*hostQuantized{{}, {inFP32: true, scales: true}} {
				if _, err := check.Margin(t.Context(), &hostDevice{}, g); err != nil {
					t.Error(err)
				}
			}
			passed++
		}
	}
	if passed == 0 {
		t.Error("no problem is small")
	}
}

func TestQuantizedIntegers(t *testing.T) {
	for _, text := range []string{"int4:32", "int4:32:zero", "int8:column:zero"} {
		q, err := ParseWeights(text)
		if err != nil {
			t.Fatal(err)
		}
		p := Task{Subject: Linear(BF16, 3, 64), M: 1}
		p.Weights = q.with(BF16, p.K)
		check, err := NewGemmCheck(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float64, p.N*p.K)
		for i := range values {
			values[i] = float64(i%9 - 4)
		}
		var o checkOperands
		if _, err := check.quantize(CheckIntegers, &o, values); err != nil {
			t.Fatal(err)
		}
		if got := transpose(o.b, p.K, p.N); !slices.Equal(got, values) {
			t.Errorf("%s: %v became %v", text, values[:9], got[:9])
		}
	}
}

func TestGateSeesWrongQuantized(t *testing.T) {
	for name, g := range map[string]*hostQuantized{
		"halves of a byte": {swapped: true}, "zero points": {noZeros: true}, "groups": {lateGroup: true},
		"rounding": {inFP32: true}, "rounding of what scales sums": {scales: true}, "behind the weights": {pastRaw: true},
	} {
		var failed *CheckError
		for _, q := range smallQuantized(BF16) {
			_, err := CheckMargin(t.Context(), &hostDevice{}, g, q, 1)
			if errors.As(err, &failed) {
				break
			}
		}
		switch {
		case failed == nil:
			t.Errorf("%s: every problem passed", name)
		case !strings.Contains(failed.Error(), " int4 g") && !strings.Contains(failed.Error(), " int8 g"):
			t.Errorf("%s: %q does not name the weights", name, failed)
		}
	}
}

func TestQuantizedTableCovers(t *testing.T) {
	if len(QuantizedCheckProblems(FP32)) > 0 {
		t.Error("fp32 has quantized weights")
	}
	seen := map[string]bool{}
	ms := map[int]bool{}
	for _, q := range QuantizedCheckProblems(FP16) {
		ms[q.M] = true
		n, err := q.Normalized()
		if err != nil {
			t.Fatal(err)
		}
		for name, is := range map[string]bool{
			"int4": n.Weights.Bits == 4, "int8": n.Weights.Bits == 8, "zero points": n.Weights.ZeroPoint != "",
			"none":         n.Weights.ZeroPoint == "",
			"groups of 32": n.Weights.GroupK == 32, "whole columns": n.Weights.GroupK == n.K, "loose": n.LDA > n.K && n.LDC > n.N,
			"decode": n.M == 1, "several tiles": n.M > 256 && n.N > 256, "a part of a step": n.K%128 != 0,
		} {
			seen[name] = seen[name] || is
		}
	}
	for name, is := range seen {
		if !is {
			t.Errorf("the table lacks %s", name)
		}
	}
	for _, tile := range []int{16, 32, 64, 128} {
		if !ms[tile] || !ms[tile+1] || tile != 32 && tile != 64 && !ms[tile-1] {
			t.Errorf("the table lacks an M around tiles of %d rows", tile)
		}
	}
}

func TestQuantization(t *testing.T) {
	for _, c := range []struct {
		text string
		want WeightFormat
	}{
		{"plain", WeightFormat{}},
		{"int4:128", IntegerWeights(4, 128, false)},
		{" INT4:column ", IntegerWeights(4, 0, false)},
		{"int8:32:zero", IntegerWeights(8, 32, true)},
		{"int8:column:zero", IntegerWeights(8, 0, true)},
	} {
		got, err := ParseWeights(c.text)
		if err != nil || got != c.want {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
		if again, err := ParseWeights(got.String()); err != nil || again != got {
			t.Errorf("%q is printed as %q", c.text, got)
		}
	}
	for text, want := range map[string]string{
		"":               `"" is no type`,
		"int3:128":       `"int3" is no type`,
		"int4":           "the group is missing",
		"int4:0":         `"0" is no length`,
		"int4:-1":        `"-1" is no length`,
		"int4:128:sym":   `"sym" is not zero`,
		"int4:8:zero:x":  "there are too many",
		"plain:128":      "plain weights have",
		"int4:x":         `"x" is no length`,
		"int8:column128": `"column128" is no length`,
	} {
		if q, err := ParseWeights(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %q", text, q, err, want)
		}
	}
}

func TestWeightFormatReadsBack(t *testing.T) {
	for _, q := range append(QuantizedCheckProblems(FP16), QuantizedCheckProblems(BF16)...) {
		if got, err := ParseWeightFormat(q.Weights.String()); err != nil || got != q.Weights {
			t.Errorf("%v was read as %v, %v", q.Weights, got, err)
		}
	}
	if f, err := ParseWeightFormat("plain"); err != nil || f != (WeightFormat{}) {
		t.Errorf("plain was read as %v, %v", f, err)
	}
	for _, bad := range []string{"", "int4", "int4 g0x1 fp16", "int4 g128x128 fp16", "int4 g128x1 fp32", "int4 g128x1 fp16 zint8",
		"fp4 g16x1 fp8"} {
		if f, err := ParseWeightFormat(bad); err == nil {
			t.Errorf("%q was read as %v", bad, f)
		}
	}
}

func TestQuantizedProblemRefuses(t *testing.T) {
	good := Task{Subject: Linear(BF16, 5, 256), M: 3}
	good.Weights = WeightFormat{Type: "int4", Bits: 4, GroupK: 128, GroupN: 1, Scale: BF16}
	if _, err := good.Normalized(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Task){
		"a group of 96 does not divide k 256":               func(q *Task) { q.Weights.GroupK = 96 },
		"a group of 0 does not divide":                      func(q *Task) { q.Weights.GroupK = 0 },
		"are neither int":                                   func(q *Task) { q.Weights.Type = "fp4" },
		"expected groups along k":                           func(q *Task) { q.Weights.GroupN = 128 },
		`scales of type "fp32", expected fp16 or bf16`:      func(q *Task) { q.Weights.Scale = FP32 },
		`zero points of type "fp16" with 16 bits, expected`: func(q *Task) { q.Weights.ZeroPoint, q.Weights.ZeroPointBits = "fp16", 16 },
		"quantized weights are stored":                      func(q *Task) { q.Layout = RowMajor },
		"ldb is 260, expected 256":                          func(q *Task) { q.LDB = 260 },
		"never inside":                                      func(q *Task) { q.PackInside = true },
		"k 255 of 4 bits is no whole":                       func(q *Task) { q.K, q.Weights.GroupK = 255, 255 },
		"N is 0":                                            func(q *Task) { q.N = 0 },
	} {
		q := good
		change(&q)
		if _, err := q.Normalized(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestQuantizeIsNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := IntegerWeights(rapid.SampledFrom([]int{4, 8}).Draw(t, "bits"), 0, rapid.Bool().Draw(t, "zero points"))
		n, k := rapid.IntRange(1, 4).Draw(t, "n"), 2*rapid.IntRange(1, 40).Draw(t, "pairs of k")
		if rapid.Bool().Draw(t, "groups") {
			q.GroupK = 2
		}
		f, err := q.For(rapid.SampledFrom([]DType{FP16, BF16}).Draw(t, "scales"), k)
		if err != nil {
			t.Fatal(err)
		}
		values := rapid.SliceOfN(rapid.Float64Range(-100, 100), n*k, n*k).Draw(t, "weights")
		m, err := Quantize(f, n, k, values)
		if err != nil {
			t.Fatal(err)
		}
		most := float64(int(1)<<f.Bits - 1)
		for i, v := range m.Values(FP32) {
			// Half a step; as much again for the end of asymmetric codes and for a rounded zero point; plus
			// the scale's rounding times the codes.
			scale := m.Scales[i/f.GroupK]
			bound := (scale*(1+most*f.Scale.UnitRoundoff()) + most*smallestStep(f.Scale)) * 1.001
			if math.Abs(v-values[i]) > bound {
				t.Fatalf("weight %d is %g, was %g, scale %g", i, v, values[i], scale)
			}
		}
		if raw := m.Raw(); int64(len(raw)) != f.rawWeights(n, k).Bytes {
			t.Fatalf("%d raw bytes, want %d", len(raw), f.rawWeights(n, k).Bytes)
		}
	})
}

func TestQuantize(t *testing.T) {
	symmetric := IntegerWeights(4, 4, false).with(FP16, 4)
	m, err := Quantize(symmetric, 2, 4, []float64{7.5, -7.5, 0.4, -3, 0, 0, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	if want := []byte{15, 0, 8, 5, 8, 8, 8, 8}; !bytes.Equal(m.Codes, want) || m.Scales[0] != 1 || m.Scales[1] != 1 {
		t.Errorf("codes %v with scales %v", m.Codes, m.Scales)
	}
	if raw := m.Raw(); !bytes.Equal(raw[:4], []byte{0x0f, 0x58, 0x88, 0x88}) || len(raw) != 32 {
		t.Errorf("raw % x", raw)
	}
	uneven := IntegerWeights(4, 4, true).with(FP16, 4)
	if m, err = Quantize(uneven, 1, 4, []float64{-5, 10, 0, 2.6}); err != nil {
		t.Fatal(err)
	}
	if want := []byte{0, 15, 5, 8}; !bytes.Equal(m.Codes, want) || m.Zeros[0] != 5 {
		t.Errorf("codes %v with zero points %v", m.Codes, m.Zeros)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(-1), 1e9} {
		if _, err := Quantize(symmetric, 1, 4, []float64{1, bad, 2, 3}); err == nil || !strings.Contains(err.Error(), "weight (0,1) is") {
			t.Errorf("%g: %v", bad, err)
		}
	}
	if _, err := Quantize(symmetric, 1, 4, []float64{1}); err == nil {
		t.Error("one weight of four was taken")
	}
}

func TestFillWeights(t *testing.T) {
	s := Product(BF16, 700, 2048)
	s.Layout = Transposed
	for _, text := range []string{"int4:128", "int4:64:zero", "int8:column"} {
		q, err := ParseWeights(text)
		if err != nil {
			t.Fatal(err)
		}
		if s.Weights, err = q.For(BF16, s.K); err != nil {
			t.Fatal(err)
		}
		if again, ok := s.Weights.Requested(s.K); !ok || again != q {
			t.Errorf("%v came back as %v", q, again)
		}
		fill := func(seed uint64, dist Distribution) []byte {
			b := &hostBuffer{make([]byte, s.Stored(1))}
			if err := FillWeights(b, s, 1, dist, seed); err != nil {
				t.Fatal(err)
			}
			return b.mem
		}
		if one := fill(1, Normal); !bytes.Equal(one, fill(1, Normal)) || bytes.Equal(one, fill(2, Normal)) {
			t.Errorf("%s: the seed does not decide", text)
		}
		fill(1, Zeros)
		fill(1, Integers)
		if err := FillWeights(&hostBuffer{}, s, 1, "uniform", 1); err == nil {
			t.Error("an unknown distribution was filled")
		}
	}
}
