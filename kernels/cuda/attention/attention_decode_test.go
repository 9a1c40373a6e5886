package attention

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func decodeProblem(t *testing.T, h kernels.Heads, d kernels.DType, length int) Problem {
	t.Helper()
	p, err := NewProblem(kernels.Attention{
		Rows: 1, Heads: h, DType: d, Scale: 0.1, LDQ: h.Width(), Length: length,
		Cache: kernels.KVCache{Capacity: planning.DivideUp(length, kernels.CacheGranule) * kernels.CacheGranule},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDecodeDecisions(t *testing.T) {
	mistral := kernels.Heads{Query: 32, KV: 8, Dim: 128}
	turing := planning.Arch{CC: 75, SMs: 40, SharedMax: 64 << 10, ClockMHz: 1590, Bandwidth: 320e9}
	for _, c := range []struct {
		a      planning.Arch
		h      kernels.Heads
		d      kernels.DType
		length int
		label  string
	}{
		{cudatest.H200, mistral, kernels.BF16, 32768, "bulk_128 16 splits"},
		{cudatest.H200, mistral, kernels.BF16, 4096 + 256, "bulk_128 16 splits"},
		{cudatest.H200, mistral, kernels.BF16, 1024, "bulk_128 16 splits"},
		{cudatest.H200, mistral, kernels.FP16, 128, "tensor_128 16 splits"},
		{cudatest.H200, mistral, kernels.FP32, 4096, "128 16 splits"},
		{cudatest.H200, kernels.Heads{Query: 32, KV: 32, Dim: 128}, kernels.FP16, 4096, "bulk_128 4 splits"},
		{cudatest.H200, kernels.Heads{Query: 32, KV: 4, Dim: 64}, kernels.FP16, 4096, "tensor_64 32 splits"},
		{cudatest.H200, kernels.Heads{Query: 8, KV: 8, Dim: 80}, kernels.FP16, 4096, "128 16 splits"},
		{turing, mistral, kernels.FP16, 4096, "128 5 splits"},
	} {
		if got := (Decode{}).Plan(c.a, decodeProblem(t, c.h, c.d, c.length)).Label; got != c.label {
			t.Errorf("%d, %+v of %s, %d keys: %q, want %q", c.a.CC, c.h, c.d, c.length, got, c.label)
		}
	}
}

// No prefetch if blocks leave no room for the next launch, on tensor cores, or without overlapping launches.
// Bulk copies prefetch only with rotation.
func TestDecodeAhead(t *testing.T) {
	h := kernels.Heads{Query: 32, KV: 8, Dim: 128}
	k := decodeProblem(t, h, kernels.FP32, 4096).decodeKernel(cudatest.H200)
	for splits, want := range map[int]int{1: decodeAhead, 8: decodeAhead, 9: 0, 16: 0} {
		if got := (decodeChoice{k, splits}).ahead(cudatest.H200, h, Rotation{}); got != want {
			t.Errorf("%d splits: %d tiles ahead, want %d", splits, got, want)
		}
	}
	if got := (decodeChoice{k, 1}).ahead(cudatest.Archs[1], h, Rotation{}); got != 0 {
		t.Errorf("%d tiles ahead without overlap", got)
	}
	for _, c := range decodeChoices(cudatest.H200, decodeProblem(t, h, kernels.FP16, 4096)) {
		want := 0
		if c.bulk {
			want = decodeAhead
		}
		if alone, rotated := c.ahead(cudatest.H200, h, Rotation{}),
			c.ahead(cudatest.H200, h, Rotation{Table: 1}); alone != 0 || rotated != want {
			t.Errorf("%s %d splits: %d tiles ahead, with a rotation %d, want 0 and %d", c.name, c.splits, alone, rotated, want)
		}
	}
}

func TestDecodeSupports(t *testing.T) {
	p := decodeProblem(t, kernels.Heads{Query: 4, KV: 4, Dim: 256}, kernels.FP16, 100)
	for _, c := range []struct {
		change func(*Problem)
		reason string
	}{
		{func(*Problem) {}, ""},
		{func(p *Problem) { p.rows = 2 }, "takes one row of queries, not 2"},
		{func(p *Problem) { p.heads.Dim = 258 }, "takes heads of up to 256 elements, not 258"},
		{func(p *Problem) { p.heads = kernels.Heads{Query: 133, KV: 133, Dim: 256} },
			"133 heads of keys and values are more than blocks that run at once"},
	} {
		q := p
		c.change(&q)
		if got := (Decode{}).Supports(cudatest.H200, q); got != c.reason {
			t.Errorf("%+v: %q, want %q", q, got, c.reason)
		}
	}
}

func TestDecodeCall(t *testing.T) {
	p := decodeProblem(t, kernels.Heads{Query: 36, KV: 3, Dim: 128}, kernels.BF16, 1000)
	p.window, p.scale = 700, 1
	plan := decodeChoice{p.decodeKernel(cudatest.H200), 5}.plan(cudatest.H200, p, Rotation{Table: 7, Positions: 2048})
	k := plan.Bind(Addresses{q: 1, keys: 2, values: 3, out: 4, position: 5, Flags: 6})[0]
	want := new(planning.Args).Pointer(1).Pointer(2).Pointer(3).Pointer(4).Pointer(5).Pointer(7).Pointer(6)
	want.Int32(36, 3, 12, 2, 128, 1024, 700, 1000, 2048, 0, 1).Float32(1.4426950408889634)
	words := 2*8 + 208
	if k.Kernel != "ga_attention_decode_bf16_tensor_128" || k.Grid != (planning.Dim3{X: 5, Y: 6}) || k.Shared != 4*(8*8*128+5*words) ||
		!k.Overlap ||
		string(k.Args.Bytes) != string(want.Bytes) || plan.Flags != int64(6*5*5*words*4) {
		t.Errorf("plan %+v, call %+v", plan, k)
	}
	for _, c := range decodeChoices(cudatest.H200, p) {
		b := c.call(cudatest.H200, p, Addresses{q: 1, keys: 2, values: 3, out: 4, position: 5, Flags: 6},
			Rotation{Table: 7, Positions: 2048})
		want := *new(planning.Args).Pointer(1).Pointer(2).Pointer(3).Pointer(4).Pointer(5).Pointer(7).Pointer(6)
		want.Int32(36, 3, 12, 2, 128, 1024, 700, 1000, 2048, 2, 1).Float32(1.4426950408889634)
		if c.bulk && (b.Kernel != "ga_attention_decode_bf16_bulk_128" || b.Shared != 64<<10+4*(8*8*128+c.splits*c.recordWords(p.heads)) ||
			b.Grid.X*b.Grid.Y > cudatest.H200.SMs || string(b.Args.Bytes) != string(want.Bytes)) {
			t.Errorf("%d splits: call %+v", c.splits, b)
		}
	}
}
