package kernels

import (
	"encoding/json"
	"math"
	"testing"
)

func TestRoof(t *testing.T) {
	c := Ceilings{
		Peaks:         []Peak{{DType: FP32, FLOPS: 1e12, Origin: Measured}},
		ReadBandwidth: 100e9, CopyBandwidth: 80e9,
	}
	product := Product(FP32, 64, 64)
	plain := Subject{Operation: Softmax, DType: FP32, Dims: Dims{Columns: 1000}}
	causal := Subject{Operation: LogSoftmax, DType: FP32, Dims: Dims{Columns: 3, Queries: 3}}
	older := c
	older.CopyBandwidth = 0
	for _, tc := range []struct {
		name     string
		ceilings Ceilings
		subject  Subject
		flops    float64
		memory   Bandwidth
	}{
		{"a product", c, product, 1e12, Bandwidth{}},
		{"softmax", c, plain, 5.0 / 8 * 80e9, Bandwidth{Rate: 80e9, Of: Copying}},
		{"causal softmax: 6 of 9 are seen, and 9 written", c, causal, 5 * 6 / (15 * 4.0) * 80e9, Bandwidth{Rate: 80e9, Of: Copying}},
		{"softmax in a file without the bandwidth of copying", older, plain, 5.0 / 8 * 100e9, Bandwidth{Rate: 100e9, Of: Reading}},
		{"softmax where no bandwidth is known", Ceilings{Peaks: c.Peaks}, plain, 1e12, Bandwidth{}},
	} {
		p, ok := tc.ceilings.Roof(tc.subject)
		if !ok || math.Abs(p.FLOPS/tc.flops-1) > 1e-12 || p.Memory != tc.memory {
			t.Errorf("%s: %+v, %v", tc.name, p, ok)
		}
	}
	if p, ok := (Ceilings{}).Roof(plain); ok {
		t.Errorf("where nothing is known: %+v", p)
	}
}

func TestProductIsShape(t *testing.T) {
	for _, d := range DTypes() {
		s, shape := Product(d, 96, 160), Shape{M: 7, N: 96, K: 160}
		if s.FLOPs(7) != shape.FLOPs() || s.Bytes(7) != shape.Bytes(d) {
			t.Errorf("%s: %g FLOP, %g bytes, expected %g and %g", d, s.FLOPs(7), s.Bytes(7), shape.FLOPs(), shape.Bytes(d))
		}
	}
}

func TestSubjectWork(t *testing.T) {
	int4 := Product(FP16, 256, 512)
	int4.Weights = WeightFormat{Type: "int4", Bits: 4, GroupK: 128, GroupN: 1, Scale: FP16}
	batched := Product(FP16, 256, 512)
	batched.Products = 3
	heads := Dims{QueryHeads: 4, KVHeads: 2, HeadDim: 8}
	windowed := heads
	windowed.Window = 3
	decoder := heads
	decoder.Layers, decoder.Hidden, decoder.Inner, decoder.Vocab = 3, 16, 40, 100
	pairs := func(m, window int) (n float64) {
		for i := range m {
			for j := range i + 1 {
				if window == 0 || i-j < window {
					n++
				}
			}
		}
		return n
	}
	for _, tt := range []struct {
		name                 string
		s                    Subject
		flops, bytes, stored float64
	}{
		{"int4", int4, 2 * 5 * 256 * 512, 5*512*2 + 256*512/2 + 4*256*2 + 5*256*2, 256*512/2 + 4*256*2},
		{"batched", batched, 3 * 2 * 5 * 256 * 512, 3 * (5*512*2 + 256*512*2 + 5*256*2), 3 * 256 * 512 * 2},
		{"prefill", Subject{Operation: AttentionPrefill, DType: FP16, Dims: heads}, 4 * 4 * 8 * pairs(5, 0), 5 * (8 + 4) * 8 * 2,
			5 * 4 * 8 * 2},
		{"prefill, window", Subject{Operation: AttentionPrefill, DType: FP16, Dims: windowed}, 4 * 4 * 8 * pairs(5, 3), 5 * (8 + 4) * 8 * 2,
			5 * 4 * 8 * 2},
		{"decode", Subject{Operation: AttentionDecode, DType: FP16, Dims: heads}, 4 * 4 * 8 * 5, (8 + 5*4) * 8 * 2, 5 * 4 * 8 * 2},
		// 3 layers: 2·16·(4+2)·8 weights around attention and 3·16·40 in the gated unit; plus 16·100 of the
		// output.
		{"prompt", Subject{Operation: DecoderPrompt, DType: FP16, Dims: decoder},
			2*5*10368 + 2*1600 + 3*4*4*8*pairs(5, 0), (10368+1600)*2 + 5*3*2*2*8*2, (10368 + 1600) * 2},
		{"token", Subject{Operation: DecoderToken, DType: FP16, Dims: decoder},
			2*(10368+1600) + 3*4*4*8*6, (10368+1600)*2 + 6*3*2*2*8*2, (10368+1600)*2 + 6*3*2*2*8*2},
		{"decode, window", Subject{Operation: AttentionDecode, DType: FP16, Dims: windowed}, 4 * 4 * 8 * 3, (8 + 3*4) * 8 * 2,
			3 * 4 * 8 * 2},
	} {
		for _, f := range []struct {
			name      string
			got, want float64
		}{{"FLOP", tt.s.FLOPs(5), tt.flops}, {"bytes", tt.s.Bytes(5), tt.bytes}, {"stored bytes", tt.s.StoredBytes(5), tt.stored}} {
			if math.Abs(f.got-f.want) > 1e-9*f.want {
				t.Errorf("%s: %g %s, expected %g", tt.name, f.got, f.name, f.want)
			}
		}
		if err := tt.s.Validate(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestSubjectValidate(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"operation", "operation 200 is unknown"},
		{"n", "n is 0, expected at least 1"},
		{"dims",
			"gemm has dimensions of another operation: head_dim 8"},
		{"dtype", `dtype "int32" can't be an operand`},
		{"layout", "layout 9 is unknown"},
	} {
		s := Product(FP16, 8, 8)
		switch tt.name {
		case "operation":
			s.Operation = 200
		case "n":
			s.N = 0
		case "dims":
			s.HeadDim = 8
		case "dtype":
			s.DType = INT32
		case "layout":
			s.Layout = 9
		}
		if err := s.Validate(); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, expected %s", tt.name, err, tt.want)
		}
	}
}

func TestSubjectWithoutWords(t *testing.T) {
	var s Subject
	if err := json.Unmarshal([]byte(`{"dtype":"bf16","n":8,"k":16}`), &s); err != nil || s != Product(BF16, 8, 16) {
		t.Errorf("%+v, %v", s, err)
	}
	s.Layout, s.Operation = Transposed, AttentionDecode
	data, err := json.Marshal(s)
	var back Subject
	if err != nil || json.Unmarshal(data, &back) != nil || back != s {
		t.Errorf("%s is read as %+v, %v", data, back, err)
	}
}

func TestDivisible(t *testing.T) {
	batch := Product(BF16, 64, 64)
	batch.Products = 1
	for _, c := range []struct {
		s                   Subject
		divisible, paddable bool
	}{
		{Product(BF16, 64, 64), true, true},
		{batch, false, true},
		{Subject{Operation: GroupedGEMM, DType: BF16, Dims: Dims{N: 64, K: 64, Groups: 8}}, false, true},
		{Subject{Operation: GroupedGEMM, DType: BF16, Dims: Dims{N: 64, K: 64, Groups: 8, TopK: 2, Draw: 1}}, false, true},
		{Subject{Operation: GroupedGEMM, DType: BF16, Dims: Dims{N: 64, K: 64, Groups: 8, Routing: 1}}, false, false},
		{Subject{Operation: AttentionPrefill, DType: BF16}, false, false},
		{Subject{Operation: DecoderToken, DType: BF16}, false, false},
	} {
		if c.s.Divisible() != c.divisible || c.s.Paddable() != c.paddable {
			t.Errorf("%v %s: divisible %v, paddable %v", c.s.Operation, c.s.Size(), c.s.Divisible(), c.s.Paddable())
		}
	}
}

func TestContext(t *testing.T) {
	for _, c := range []struct {
		window  int
		m, want float64
	}{{0, 10, 10}, {1, 10, 1}, {4, 10, 4}, {10, 10, 10}, {16, 10, 10}} {
		if got := (Subject{Dims: Dims{Window: c.window}}).context(c.m); got != c.want {
			t.Errorf("the last of %v tokens with window %d sees %v, expected %v", c.m, c.window, got, c.want)
		}
	}
}

func TestBytesOfQuantizedWeights(t *testing.T) {
	const n, k = 64, 256
	for text, want := range map[string]float64{
		"int4:128":      n*k/2 + n*2*2,
		"int4:128:zero": n*k/2 + n*2*2.5,
		"int8:column":   n*k + n*2,
		"int8:32:zero":  n*k + n*8*3,
	} {
		q, err := ParseWeights(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.with(FP16, k).bits(k, n) / 8; got != want {
			t.Errorf("%s: %g bytes, want %g", text, got, want)
		}
	}
}

func TestOperationsAreWritten(t *testing.T) {
	for o := range Operation(len(definitions)) {
		var again Operation
		if text, err := o.MarshalText(); err != nil || again.UnmarshalText(text) != nil || again != o {
			t.Errorf("%v is written as %q and read as %v, %v", o, text, again, err)
		}
	}
	if text, err := Operation(len(definitions)).MarshalText(); err == nil {
		t.Errorf("the operation after the last is written as %q", text)
	}
}
