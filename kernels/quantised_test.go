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

// hostQuantised makes plain weights of quantised ones and multiplies by them, unless one of its
// faults is set.
type hostQuantised struct {
	hostGemm
	swapped   bool // takes the upper half of a byte for the lower
	noZeros   bool // subtracts the middle of the codes instead of zero points
	lateGroup bool // takes the scale of the group before
	inFP32    bool // does not round weights to the activations' type
	scales    bool // says that it scales sums, hence that it does not
	pastRaw   bool // adds what lies behind the raw weights
}

func (g *hostQuantised) SupportsQuantised(q QuantisedProblem) error {
	_, err := q.Normalized()
	return err
}

func (g *hostQuantised) ScalesSums(QuantisedProblem) bool { return g.scales }

// PrepareQuantised reads the raw weights as [QuantisedProblem] describes them, one by one.
func (g *hostQuantised) PrepareQuantised(q QuantisedProblem, raw Buffer) (Weights, error) {
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
	d := FP32 // keeps what is not rounded
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

func (g *hostQuantised) BindQuantised(q QuantisedProblem, a Operand, w Weights, c Operand) (Launch, error) {
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

// smallQuantised are the problems of the standing table that a test has time for.
func smallQuantised(d DType) []QuantisedProblem {
	var out []QuantisedProblem
	for _, q := range QuantisedCheckProblems(d) {
		if q.M*q.N*q.K < 200_000 {
			out = append(out, q)
		}
	}
	return out
}

func TestGatePassesQuantised(t *testing.T) {
	passed := 0
	for _, d := range DTypes() {
		for _, q := range smallQuantised(d) {
			check, err := NewQuantisedCheck(q, 1)
			if err != nil {
				t.Fatal(err)
			}
			// One check serves both kinds of kernels.
			for _, g := range []*hostQuantised{{}, {inFP32: true, scales: true}} {
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

// TestQuantisedIntegers: whole numbers are the weights that were drawn, with a scale of 1, whatever their zero points are.
func TestQuantisedIntegers(t *testing.T) {
	for _, text := range []string{"int4:32", "int4:32:zero", "int8:column:zero"} {
		q, err := ParseQuantisation(text)
		if err != nil {
			t.Fatal(err)
		}
		p := Problem{Shape: Shape{M: 1, N: 3, K: 64}, DType: BF16, BLayout: Transposed}
		check, err := NewQuantisedCheck(QuantisedProblem{p, q.format(BF16, p.K)}, 1)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float64, p.N*p.K)
		for i := range values {
			values[i] = float64(i%9 - 4)
		}
		var o checkOperands
		if _, err := check.quantise(CheckIntegers, &o, values); err != nil {
			t.Fatal(err)
		}
		if got := transpose(o.b, p.K, p.N); !slices.Equal(got, values) {
			t.Errorf("%s: %v became %v", text, values[:9], got[:9])
		}
	}
}

// TestGateSeesWrongQuantised: each fault fails some problem of the table.
func TestGateSeesWrongQuantised(t *testing.T) {
	for name, g := range map[string]*hostQuantised{
		"halves of a byte": {swapped: true}, "zero points": {noZeros: true}, "groups": {lateGroup: true},
		"rounding": {inFP32: true}, "rounding of what scales sums": {scales: true}, "behind the weights": {pastRaw: true},
	} {
		var failed *CheckError
		for _, q := range smallQuantised(BF16) {
			_, err := CheckQuantised(t.Context(), &hostDevice{}, g, q, 1)
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

// TestQuantisedTableCovers: the table has what its comment promises.
func TestQuantisedTableCovers(t *testing.T) {
	if len(QuantisedCheckProblems(FP32)) > 0 {
		t.Error("fp32 has quantised weights")
	}
	seen := map[string]bool{}
	ms := map[int]bool{}
	for _, q := range QuantisedCheckProblems(FP16) {
		ms[q.M] = true
		n, err := q.Normalized()
		if err != nil {
			t.Fatal(err)
		}
		for name, is := range map[string]bool{
			"int4": n.Weights.Bits == 4, "int8": n.Weights.Bits == 8, "zero points": n.Weights.ZeroPoint != "", "none": n.Weights.ZeroPoint == "",
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

func TestQuantisation(t *testing.T) {
	for _, c := range []struct {
		text string
		want Quantisation
	}{
		{"plain", Quantisation{}},
		{"int4:128", Quantisation{Bits: 4, Group: 128}},
		{" INT4:column ", Quantisation{Bits: 4}},
		{"int8:32:zero", Quantisation{Bits: 8, Group: 32, ZeroPoints: true}},
		{"int8:column:zero", Quantisation{Bits: 8, ZeroPoints: true}},
	} {
		got, err := ParseQuantisation(c.text)
		if err != nil || got != c.want {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
		if again, err := ParseQuantisation(got.String()); err != nil || again != got {
			t.Errorf("%q is printed as %q", c.text, got)
		}
	}
	for text, want := range map[string]string{
		"":               `"" is no type of weights`,
		"int3:128":       `"int3" is no type of weights`,
		"int4":           "the group is missing",
		"int4:0":         `"0" is no length of a group`,
		"int4:-1":        `"-1" is no length of a group`,
		"int4:128:sym":   `"sym" is not zero`,
		"int4:8:zero:x":  "there are too many colons",
		"plain:128":      "plain weights have no groups",
		"int4:x":         `"x" is no length of a group`,
		"int8:column128": `"column128" is no length of a group`,
	} {
		if q, err := ParseQuantisation(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %q", text, q, err, want)
		}
	}
}

// TestWeightFormatReadsBack: what is printed of a format, as tables hold it, is read as the same.
func TestWeightFormatReadsBack(t *testing.T) {
	for _, q := range append(QuantisedCheckProblems(FP16), QuantisedCheckProblems(BF16)...) {
		if got, err := ParseWeightFormat(q.Weights.String()); err != nil || got != q.Weights {
			t.Errorf("%v was read as %v, %v", q.Weights, got, err)
		}
	}
	if f, err := ParseWeightFormat("plain"); err != nil || f != (WeightFormat{}) {
		t.Errorf("plain was read as %v, %v", f, err)
	}
	for _, bad := range []string{"", "int4", "int4 g0x1 fp16", "int4 g128x128 fp16", "int4 g128x1 fp32", "int4 g128x1 fp16 zint8", "fp4 g16x1 fp8"} {
		if f, err := ParseWeightFormat(bad); err == nil {
			t.Errorf("%q was read as %v", bad, f)
		}
	}
}

func TestQuantisedProblemRefuses(t *testing.T) {
	good := QuantisedProblem{
		Problem: Problem{Shape: Shape{M: 3, N: 5, K: 256}, DType: BF16, BLayout: Transposed},
		Weights: WeightFormat{Type: "int4", Bits: 4, GroupK: 128, GroupN: 1, Scale: BF16},
	}
	if _, err := good.Normalized(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*QuantisedProblem){
		"a group of 96 does not divide k 256":                   func(q *QuantisedProblem) { q.Weights.GroupK = 96 },
		"a group of 0 does not divide":                          func(q *QuantisedProblem) { q.Weights.GroupK = 0 },
		"are none of int4 and int8":                             func(q *QuantisedProblem) { q.Weights.Type = "fp4" },
		"expected groups along k only":                          func(q *QuantisedProblem) { q.Weights.GroupN = 128 },
		`scales of type "fp32", expected fp16 or bf16`:          func(q *QuantisedProblem) { q.Weights.Scale = FP32 },
		`zero points of type "fp16" with 16 bits, expected`:     func(q *QuantisedProblem) { q.Weights.ZeroPoint, q.Weights.ZeroPointBits = "fp16", 16 },
		"quantised weights are stored [N,K], layout nk, not kn": func(q *QuantisedProblem) { q.BLayout = RowMajor },
		"ldb is 260, expected 256":                              func(q *QuantisedProblem) { q.LDB = 260 },
		"never inside":                                          func(q *QuantisedProblem) { q.PackInside = true },
		"k 255 of 4 bits is no whole number of bytes":           func(q *QuantisedProblem) { q.K, q.Weights.GroupK = 255, 255 },
		"N is 0": func(q *QuantisedProblem) { q.N = 0 },
	} {
		q := good
		change(&q)
		if _, err := q.Normalized(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestQuantiseIsNear: a quantised weight is within half a step of what it was, but for what the ends
// of the codes and the rounding of the scale take.
func TestQuantiseIsNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := Quantisation{Bits: rapid.SampledFrom([]int{4, 8}).Draw(t, "bits"), ZeroPoints: rapid.Bool().Draw(t, "zero points")}
		n, k := rapid.IntRange(1, 4).Draw(t, "n"), 2*rapid.IntRange(1, 40).Draw(t, "pairs of k")
		if rapid.Bool().Draw(t, "groups") {
			q.Group = 2
		}
		f, err := q.Format(rapid.SampledFrom([]DType{FP16, BF16}).Draw(t, "scales"), k)
		if err != nil {
			t.Fatal(err)
		}
		values := rapid.SliceOfN(rapid.Float64Range(-100, 100), n*k, n*k).Draw(t, "weights")
		m, err := Quantise(f, n, k, values)
		if err != nil {
			t.Fatal(err)
		}
		most := float64(int(1)<<f.Bits - 1)
		for i, v := range m.Values(FP32) {
			// Half a step; the end of codes that lie around zero unevenly takes as much again, and so
			// does a zero point that was rounded; the scale's rounding times the codes.
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

func TestQuantise(t *testing.T) {
	symmetric := Quantisation{Bits: 4, Group: 4}.format(FP16, 4)
	m, err := Quantise(symmetric, 2, 4, []float64{7.5, -7.5, 0.4, -3, 0, 0, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	if want := []byte{15, 0, 8, 5, 8, 8, 8, 8}; !bytes.Equal(m.Codes, want) || m.Scales[0] != 1 || m.Scales[1] != 1 {
		t.Errorf("codes %v with scales %v", m.Codes, m.Scales)
	}
	if raw := m.Raw(); !bytes.Equal(raw[:4], []byte{0x0f, 0x58, 0x88, 0x88}) || len(raw) != 32 {
		t.Errorf("raw % x", raw)
	}
	uneven := Quantisation{Bits: 4, Group: 4, ZeroPoints: true}.format(FP16, 4)
	if m, err = Quantise(uneven, 1, 4, []float64{-5, 10, 0, 2.6}); err != nil {
		t.Fatal(err)
	}
	if want := []byte{0, 15, 5, 8}; !bytes.Equal(m.Codes, want) || m.Zeros[0] != 5 {
		t.Errorf("codes %v with zero points %v", m.Codes, m.Zeros)
	}
	for _, bad := range []float64{math.NaN(), math.Inf(-1), 1e9} {
		if _, err := Quantise(symmetric, 1, 4, []float64{1, bad, 2, 3}); err == nil || !strings.Contains(err.Error(), "weight (0,1) is") {
			t.Errorf("%g: %v", bad, err)
		}
	}
	if _, err := Quantise(symmetric, 1, 4, []float64{1}); err == nil {
		t.Error("one weight of four was taken")
	}
}

// TestFillWeights: the same seed gives the same raw weights, another one others; and what a subject
// stores is what is filled.
func TestFillWeights(t *testing.T) {
	s := Product(BF16, 700, 2048)
	s.Layout = Transposed
	for _, text := range []string{"int4:128", "int4:64:zero", "int8:column"} {
		q, err := ParseQuantisation(text)
		if err != nil {
			t.Fatal(err)
		}
		if s.Weights, err = q.Format(BF16, s.K); err != nil {
			t.Fatal(err)
		}
		if again, ok := QuantisationOf(s.Weights, s.K); !ok || again != q {
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
