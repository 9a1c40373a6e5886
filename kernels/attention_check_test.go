package kernels

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

type hostAttention struct {
	dropTile     bool
	dropFirst    bool // drops the first key if there are more
	maskLate     bool // sees one key too many at the end
	maskEarly    bool
	windowWide   bool // sees one key too many at the start
	windowNarrow bool // sees one key too few
	noWindow     bool
	noScale      bool
	scale        bool // uses the scale of another head size
	wrongHead    bool // reads key head h mod KV
	wrongValues  bool // reads value head h mod KV
	noMax        bool // does not subtract the maximum
	zeroMax      bool // starts the running maximum at zero
	noRing       bool // reads the slot after the position
	halfScores   bool // rounds scores to the operands' type
	halfSums     bool // keeps Σp·v in the operands' type
	masksByZero  bool // multiplies masked values by zero
	pastEnd      bool
	lastRow      bool // does not write the last row
	writeCache   bool
	drift        bool
	strays       bool // writes the first byte of the output buffer in every second run
	bound        bool // reads the position when bound
	dropNaN      bool // ignores NaN scores
	finite       bool // treats non-finite values as zero

	runs int
}

func (f *hostAttention) attend(a Attention) (Launch, error) {
	position := func() int {
		return int(int32(binary.LittleEndian.Uint32(a.Position.Buffer.(*hostBuffer).mem[4*a.Position.Offset:])))
	}
	atBind := position()
	return hostLaunch(func() error {
		at := position()
		if f.bound {
			at = atBind
		}
		f.runs++
		q, k, v := a.Q.all(a.DType), a.Cache.Keys.all(a.DType), a.Cache.Values.all(a.DType)
		for i := range a.Rows {
			for head := range a.Heads.Query {
				f.one(a, q, k, v, at, i, head)
			}
		}
		width := a.Heads.Query * a.Heads.Dim
		if f.pastEnd {
			a.Out.put(a.DType, a.Rows*width, 0)
		}
		if f.writeCache {
			a.Cache.Keys.put(a.DType, 0, 17)
		}
		if f.drift {
			a.Out.put(a.DType, 0, a.Out.get(a.DType, 0)+float64(f.runs)*1e-6)
		}
		if f.strays && f.runs%2 == 0 {
			a.Out.Buffer.(*hostBuffer).mem[0] ^= 1
		}
		return nil
	}), nil
}

func (o Operand) all(d DType) []float64 {
	mem := o.Buffer.(*hostBuffer).mem[o.Offset*d.Size():]
	out := make([]float64, len(mem)/d.Size())
	if err := Decode(d, mem, out); err != nil {
		panic(err)
	}
	return out
}

func (f *hostAttention) one(a Attention, q, k, v []float64, position, row, head int) {
	if f.lastRow && row == a.Rows-1 {
		return
	}
	h, last := a.Heads, position+row
	first := 0
	if a.Window > 0 && !f.noWindow {
		first = max(0, last-a.Window+1)
	}
	f32 := func(x float64) float64 { return float64(float32(x)) }
	if f.maskLate {
		last++
	}
	if f.maskEarly && last > first {
		last--
	}
	if f.dropFirst && last > first {
		first++
	}
	if f.windowWide && a.Window > 0 {
		first = max(0, first-1)
	}
	if f.windowNarrow && a.Window > 1 && first < last && first > 0 {
		first++
	}
	keyHead, valueHead := head/(h.Query/h.KV), head/(h.Query/h.KV)
	if f.wrongHead {
		keyHead = head % h.KV
	}
	if f.wrongValues {
		valueHead = head % h.KV
	}
	scale := a.Scale
	if f.noScale {
		scale = 1
	}
	if f.scale {
		scale = 1 / math.Sqrt(float64(h.Dim+8))
	}
	slot := func(kv, position int) int {
		if f.noRing && position >= a.Cache.Capacity {
			position++
		}
		return (kv*a.Cache.Capacity + position%a.Cache.Capacity) * h.Dim
	}
	m, sum := math.Inf(-1), 0.0
	if f.zeroMax || f.noMax {
		m = 0
	}
	out := make([]float64, h.Dim)
	for p := first; p <= last; p++ {
		if j := p - first; f.dropTile && j >= 16 && j < 32 && last > first+16 {
			continue
		}
		var s float64
		for e := range h.Dim {
			s = f32(s + f32(q[row*a.LDQ+head*h.Dim+e]*k[slot(keyHead, p)+e]))
		}
		s = f32(s * scale)
		if f.halfScores {
			s = roundTo(a.DType, s)
		}
		if f.dropNaN && math.IsNaN(s) {
			continue
		}
		if !f.noMax && s > m {
			factor := f32(math.Exp(m - s))
			sum = f32(sum * factor)
			for e := range out {
				out[e] = f32(out[e] * factor)
			}
			m = s
		}
		w := f32(math.Exp(f32(s - m)))
		sum = f32(sum + w)
		w = roundTo(a.DType, w)
		for e := range out {
			value := v[slot(valueHead, p)+e]
			if f.finite && (math.IsNaN(value) || math.IsInf(value, 0)) {
				value = 0
			}
			out[e] = f32(out[e] + w*value)
			if f.halfSums {
				out[e] = roundTo(a.DType, out[e])
			}
		}
	}
	for e, x := range out {
		if f.masksByZero {
			x += 0 * v[slot(valueHead, position+a.Rows)+e]
		}
		a.Out.put(a.DType, (row*h.Query+head)*h.Dim+e, x/sum)
	}
}

var attentionTypes = []DType{FP32, FP16, BF16}

func smallAttention(d DType) []AttentionCase {
	var out []AttentionCase
	for _, c := range AttentionCases(d, 8) {
		if c.Rows*c.Heads.Query*(c.Rows+min(c.Position, 1000)) < 8_000 {
			out = append(out, c)
		}
	}
	return out
}

func TestAttentionGatePassesCorrectKernel(t *testing.T) {
	for _, dt := range attentionTypes {
		cases := smallAttention(dt)
		for _, dim := range []int{32, 64, 128} {
			cases = append(cases,
				AttentionCase{Rows: 21, Heads: Heads{4, 2, dim}, DType: dt, Window: 16, Position: 250, Capacity: 256},
				AttentionCase{Rows: 1, Heads: Heads{4, 1, dim}, DType: dt, Position: 700})
		}
		var worst float64
		for _, c := range cases {
			check, err := NewAttentionCheck(c, 1)
			if err != nil {
				t.Fatal(err)
			}
			margin, err := check.Margin(t.Context(), &hostDevice{}, new(hostAttention).attend)
			if err != nil {
				t.Fatal(err)
			}
			worst = max(worst, margin)
		}
		if worst > 0.7 || worst < 0.001 {
			t.Errorf("%s: a correct kernel uses %.3f of the bound", dt, worst)
		}
	}
}

func TestAttentionGateCatchesFaults(t *testing.T) {
	for i, c := range []struct {
		name   string
		faulty hostAttention
		check  CheckStep
		dtypes []DType
	}{
		{"a tile of keys dropped", hostAttention{dropTile: true}, CheckAccuracy, attentionTypes},
		{"the first key dropped", hostAttention{dropFirst: true}, CheckAccuracy, attentionTypes},
		{"mask off by one, late", hostAttention{maskLate: true}, CheckAccuracy, attentionTypes},
		{"mask off by one, late, at the end", hostAttention{maskLate: true}, CheckOverRead, attentionTypes},
		{"mask off by one, early", hostAttention{maskEarly: true}, CheckAccuracy, attentionTypes},
		{"window one too wide", hostAttention{windowWide: true}, CheckAccuracy, attentionTypes},
		{"window one too wide, at the beginning", hostAttention{windowWide: true}, CheckOverRead, attentionTypes},
		{"window one too narrow", hostAttention{windowNarrow: true}, CheckAccuracy, attentionTypes},
		{"no window", hostAttention{noWindow: true}, CheckOverRead, attentionTypes},
		{"no scale", hostAttention{noScale: true}, CheckAccuracy, attentionTypes},
		{"another scale", hostAttention{scale: true}, CheckAccuracy, attentionTypes},
		{"wrong head of keys", hostAttention{wrongHead: true}, CheckAccuracy, attentionTypes},
		{"wrong head of values", hostAttention{wrongValues: true}, CheckAccuracy, attentionTypes},
		{"no maximum", hostAttention{noMax: true}, CheckOverRead, attentionTypes},
		{"maximum from zero", hostAttention{zeroMax: true}, CheckOverRead, attentionTypes},
		{"wrong slot once around", hostAttention{noRing: true}, CheckOverRead, attentionTypes},
		{"scores in the operands' type", hostAttention{halfScores: true}, CheckAccuracy, []DType{FP16, BF16}},
		{"sums in the operands' type", hostAttention{halfSums: true}, CheckAccuracy, []DType{FP16, BF16}},
		{"zero times what is masked", hostAttention{masksByZero: true}, CheckOverRead, attentionTypes},
		{"writes after the output", hostAttention{pastEnd: true}, CheckPadding, attentionTypes},
		{"last row dropped", hostAttention{lastRow: true}, CheckUnwritten, attentionTypes},
		{"writes into the cache", hostAttention{writeCache: true}, CheckInputs, attentionTypes},
		{"differs from run to run", hostAttention{drift: true}, CheckRepeat, []DType{FP32}},
		{"writes before the output in a later run", hostAttention{strays: true}, CheckRepeat, attentionTypes},
		{"NaN scores left out", hostAttention{dropNaN: true}, CheckNonFinite, attentionTypes},
		{"infinite values taken for zero", hostAttention{finite: true}, CheckNonFinite, attentionTypes},
		{"position taken when bound", hostAttention{bound: true}, CheckOverRead, attentionTypes},
	} {
		for j, dt := range c.dtypes {
			t.Run(fmt.Sprintf("%s/%s", c.name, dt), func(t *testing.T) {
				if testing.Short() && j != i%len(c.dtypes) {
					t.Skip("one type meets each fault")
				}
				var found *AttentionError
				for _, problem := range smallAttention(dt) {
					faulty := c.faulty
					err := AttentionGate(t.Context(), &hostDevice{}, faulty.attend, problem, 1)
					if err == nil {
						continue
					}
					if !errors.As(err, &found) {
						t.Fatalf("%v: %v is no AttentionError", problem, err)
					}
					if found.Check == c.check {
						return
					}
				}
				t.Errorf("no check %q failed; the last failure was: %v", c.check, found)
			})
		}
	}
}

func TestAttentionGateSeesOneKey(t *testing.T) {
	c := AttentionCase{Rows: 40, Heads: Heads{6, 6, 16}, DType: BF16, Window: 900, Position: 1500}
	for _, f := range []hostAttention{{maskLate: true}, {maskEarly: true}, {windowWide: true}, {windowNarrow: true}} {
		c, err := c.Normalized()
		if err != nil {
			t.Fatal(err)
		}
		r := &attentionRun{device: &hostDevice{}, c: c, data: peakedScores}
		err = r.run(t.Context(), f.attend, newAttentionKind(c, peakedScores, 5))
		var e *AttentionError
		if !errors.As(err, &e) || e.Wrong < c.Rows*c.Heads.Dim/2 {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestAttentionGateReportsAndRefuses(t *testing.T) {
	c := AttentionCase{Rows: 2, Heads: Heads{4, 2, 8}, DType: FP16, Position: 3}
	err := AttentionGate(t.Context(), &hostDevice{}, (&hostAttention{lastRow: true}).attend, c, 1)
	want := "check: host: attention fp16 rows 2 heads 4/2 of 8 window 0 position 3 capacity 256 length 5, normal scores: unwritten: row " +
		"1 head 0 element 0 is NaN: it was not written (32 outputs)"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	refused := errors.New("no such thing")
	err = AttentionGate(t.Context(), &hostDevice{}, func(Attention) (Launch, error) { return nil, refused }, c, 1)
	if !errors.Is(err, refused) || !strings.Contains(err.Error(), "rows 2") {
		t.Errorf("a refusal came back as %v", err)
	}
	for _, bad := range []struct {
		change func(*AttentionCase)
		want   string
	}{
		{func(c *AttentionCase) { c.Rows = 0 }, "at least 1 row"},
		{func(c *AttentionCase) { c.Position = -1 }, "position"},
		{func(c *AttentionCase) { c.Heads.KV = 3 }, "do not divide evenly"},
		{func(c *AttentionCase) { c.DType = INT8 }, "expected fp32, fp16 or bf16"},
		{func(c *AttentionCase) { c.Capacity = 300 }, "multiple of 256"},
		{func(c *AttentionCase) { c.Position, c.Capacity = 255, 256 }, "capacity is 256, expected at least 257"},
		{func(c *AttentionCase) { c.Length = 4 }, "length is 4, expected at least 5"},
		{func(c *AttentionCase) { c.LDQ = 31 }, "ldq is 31, expected at least 32"},
	} {
		c := c
		bad.change(&c)
		err := AttentionGate(t.Context(), &hostDevice{}, new(hostAttention).attend, c, 1)
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("got %v, want it to contain %q", err, bad.want)
		}
	}
}

func TestAttentionCasesCover(t *testing.T) {
	for _, dt := range attentionTypes {
		var one, many, wrapped, windows, beyond, shared, single, loose, ahead, within, apart int
		for _, c := range AttentionCases(dt, 64) {
			n, err := c.Normalized()
			if err != nil {
				t.Fatal(err)
			}
			count := func(what *int, is bool) {
				if is {
					*what++
				}
			}
			count(&one, n.Rows == 1 && n.Position > 1000)
			count(&many, n.Rows > 200)
			count(&wrapped, n.Position+n.Rows > n.Capacity)
			count(&within, n.Position < n.Capacity && n.Position+n.Rows > n.Capacity)
			count(&windows, n.Window > 0)
			count(&beyond, n.Window > n.Position+n.Rows)
			count(&shared, n.Heads.KV == 1 && n.Heads.Query > 1)
			count(&single, n.Heads.KV == n.Heads.Query)
			count(&apart, n.Heads.KV == n.Heads.Query && n.Heads.KV > 1 && n.Rows == 1 && n.Position > 4096 && n.Window == 0)
			count(&loose, n.LDQ > n.Heads.Query*n.Heads.Dim)
			count(&ahead, n.Length > n.Position+n.Rows)
		}
		if min(one, many, wrapped, windows, beyond, shared, single, loose, ahead, within, apart) == 0 {
			t.Errorf("%s: a kind is missing: %d %d %d %d %d %d %d %d %d %d %d", dt, one, many, wrapped, windows, beyond, shared, single,
				loose, ahead, within, apart)
		}
	}
}

func TestCheckAttentions(t *testing.T) {
	heads := Heads{Query: 2, KV: 1, Dim: 4}
	var cases []AttentionCase
	for rows := range 9 {
		cases = append(cases, AttentionCase{Rows: 1 + rows, Heads: heads, DType: FP32})
	}
	attend := func(fault, refuse int) func(Attention) (Launch, error) {
		return func(a Attention) (Launch, error) {
			if a.Rows == refuse {
				return nil, &Unsupported{Kernel: "attention", DType: a.DType, Reason: "no such rows"}
			}
			return (&hostAttention{noScale: a.Rows == fault}).attend(a)
		}
	}
	check := func(ctx context.Context, cases []AttentionCase, ways ...func(Attention) (Launch, error)) ([]CheckSummary, []error) {
		return checkAttentions(ctx, &hostDevice{}, ways, cases, 1)
	}
	one := func(ctx context.Context, cases []AttentionCase, way func(Attention) (Launch, error)) (CheckSummary, error) {
		s, errs := check(ctx, cases, way)
		return s[0], errs[0]
	}
	s, err := one(t.Context(), cases, attend(0, 3))
	if err != nil || s.Passed != 8 || len(s.Skipped) != 1 || s.Margin <= 0 || s.Margin > 1 {
		t.Errorf("%+v: %v", s, err)
	}
	var wrong *AttentionError
	if s, err = one(t.Context(), cases, attend(5, 0)); !errors.As(err, &wrong) || wrong.Case.Rows != 5 || s.Passed != 4 {
		t.Errorf("%+v: %v", s, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopping := func(a Attention) (Launch, error) {
		if a.Rows == 2 {
			cancel()
		}
		return attend(0, 0)(a)
	}
	if s, err = one(ctx, cases, stopping); !errors.Is(err, context.Canceled) || s.Passed > 3 {
		t.Errorf("%+v: %v", s, err)
	}
	if _, err := one(t.Context(), []AttentionCase{{Rows: 1, DType: INT8, Heads: heads}}, attend(0, 0)); err == nil {
		t.Error("a case that can't be was run")
	}
	all, errs := check(t.Context(), cases, attend(5, 0), attend(0, 3), attend(0, 0))
	if !errors.As(errs[0], &wrong) || errs[1] != nil || errs[2] != nil || all[0].Passed != 4 || all[1].Passed != 8 || all[2].Passed != 9 {
		t.Errorf("%+v: %v", all, errs)
	}
}

func TestAttentionBound(t *testing.T) {
	const u32 = 0x1p-24
	for _, c := range []struct {
		name                              string
		dtype                             DType
		n                                 int
		ref, magnitude, score, weightless float64
		want                              float64
	}{
		{"rounding to fp32, and exp", FP32, 0, 2, 0, 0, 0, 2 * (u32 + 0x1p-21)},
		{"scores", FP32, 0, 0, 3, 5, 0, 3 * (6*8*u32*5 + 0x1p-21)},
		{"sums", FP32, 100, 0, 3, 0, 0, 3 * (2*6*10*u32 + 0x1p-21)},
		{"subnormals", FP32, 100, 0, 0, 0, 0, 100*0x1p-126 + 0x1p-150},
		{"fp16 output and p", FP16, 0, 2, 0, 0, 0, 2*(2*0x1p-11+0x1p-21) + 0x1p-25},
		{"fp16 p that underflow", FP16, 0, 0, 0, 0, 1000, 1001 * 0x1p-25},
		{"bf16 p", BF16, 0, 0, 7, 0, 0, 7 * (0x1p-8 + 0x1p-21)},
	} {
		got := attentionBound(AttentionCase{DType: c.dtype, Heads: Heads{Query: 1, KV: 1, Dim: 64}}, c.n, c.ref, c.magnitude, c.score,
			c.weightless)
		if math.Abs(got-c.want) > 1e-12*c.want {
			t.Errorf("%s: %g, expected %g", c.name, got, c.want)
		}
	}
}

func TestLevelScores(t *testing.T) {
	c, err := AttentionCase{Rows: 5, Heads: Heads{4, 2, 64}, DType: FP32, Position: 20}.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	o := newAttentionOperands(c, levelScores, 3)
	for i := range c.Rows {
		for head := range c.Heads.Query {
			want := []float64{0, 300, -300, 20}[(i+head)%4]
			for j := range o.keys {
				var score float64
				for e := range c.Heads.Dim {
					score += o.q[(i*c.Heads.Query+head)*c.Heads.Dim+e] * o.k[(head/2*o.keys+j)*c.Heads.Dim+e]
				}
				if score *= c.Scale; math.Abs(score-want) > 1e-3 {
					t.Fatalf("row %d, head %d, key %d: a score of %g, want %g", i, head, j, score, want)
				}
			}
		}
	}
}
