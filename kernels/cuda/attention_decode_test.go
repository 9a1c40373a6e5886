package cuda

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// decodeProblem is one row that attends to length keys, as models have it.
func decodeProblem(t *testing.T, h kernels.Heads, d kernels.DType, length int) attentionProblem {
	t.Helper()
	p, err := newAttentionProblem(kernels.Attention{
		Rows: 1, Heads: h, DType: d, Scale: 0.1, LDQ: h.Width(), Length: length,
		Cache: kernels.KVCache{Capacity: divideUp(length, kernels.CacheGranule) * kernels.CacheGranule},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDecodeDecisions: the sequence is split until the GPU is full, and less often where it
// is short; tensor cores where there are the type and the head for them.
func TestDecodeDecisions(t *testing.T) {
	mistral := kernels.Heads{Query: 32, KV: 8, Dim: 128}
	turing := arch{cc: 75, sms: 40, sharedMax: 64 << 10, clockMHz: 1590, bandwidth: 320e9}
	for _, c := range []struct {
		a      arch
		h      kernels.Heads
		d      kernels.DType
		length int
		label  string
	}{
		{h200Arch, mistral, kernels.BF16, 32768, "tensor_128 33 splits"},
		{h200Arch, mistral, kernels.BF16, 4096 + 256, "tensor_128 16 splits"},
		{h200Arch, mistral, kernels.FP16, 128, "tensor_128 16 splits"},
		{h200Arch, mistral, kernels.FP32, 4096, "128 16 splits"},
		{h200Arch, kernels.Heads{Query: 32, KV: 32, Dim: 128}, kernels.FP16, 4096, "tensor_128 8 splits"},
		{h200Arch, kernels.Heads{Query: 32, KV: 4, Dim: 64}, kernels.FP16, 4096, "tensor_64 32 splits"},
		{h200Arch, kernels.Heads{Query: 8, KV: 8, Dim: 80}, kernels.FP16, 4096, "128 16 splits"},
		{turing, mistral, kernels.FP16, 4096, "128 5 splits"},
	} {
		if got := (decodeAttention{}).Plan(c.a, decodeProblem(t, c.h, c.d, c.length)).label; got != c.label {
			t.Errorf("%d, %+v of %s, %d keys: %q, want %q", c.a.cc, c.h, c.d, c.length, got, c.label)
		}
	}
}

// TestDecodeAhead: nothing is fetched ahead by blocks that leave no room for the next launch,
// on tensor cores, or on GPUs where launches do not overlap.
func TestDecodeAhead(t *testing.T) {
	h := kernels.Heads{Query: 32, KV: 8, Dim: 128}
	k := decodeProblem(t, h, kernels.FP32, 4096).decodeKernel(h200Arch)
	for splits, want := range map[int]int{1: decodeAhead, 8: decodeAhead, 9: 0, 16: 0} {
		if got := (decodeChoice{k, splits}).ahead(h200Arch, h); got != want {
			t.Errorf("%d splits: %d tiles ahead, want %d", splits, got, want)
		}
	}
	if got := (decodeChoice{k, 1}).ahead(testArchs[1], h); got != 0 {
		t.Errorf("%d tiles ahead without overlap", got)
	}
}

func TestDecodeSupports(t *testing.T) {
	p := decodeProblem(t, kernels.Heads{Query: 4, KV: 4, Dim: 256}, kernels.FP16, 100)
	for _, c := range []struct {
		change func(*attentionProblem)
		reason string
	}{
		{func(*attentionProblem) {}, ""},
		{func(p *attentionProblem) { p.rows = 2 }, "takes one row of queries, not 2"},
		{func(p *attentionProblem) { p.heads.Dim = 258 }, "takes heads of up to 256 elements, not 258"},
		{func(p *attentionProblem) { p.heads = kernels.Heads{Query: 133, KV: 133, Dim: 256} }, "133 heads of keys and values are more than blocks that run at once"},
	} {
		q := p
		c.change(&q)
		if got := (decodeAttention{}).Supports(h200Arch, q); got != c.reason {
			t.Errorf("%+v: %q, want %q", q, got, c.reason)
		}
	}
}

// TestDecodeCall: the launch as attention_decode.cu's struct Params has it, and memory for
// what blocks tell each other.
func TestDecodeCall(t *testing.T) {
	p := decodeProblem(t, kernels.Heads{Query: 36, KV: 3, Dim: 128}, kernels.BF16, 1000)
	p.window, p.scale = 700, 1
	plan := decodeChoice{p.decodeKernel(h200Arch), 5}.plan(h200Arch, p, decodeRotation{table: 7, positions: 2048})
	k := plan.bind(attentionAddresses{q: 1, keys: 2, values: 3, out: 4, position: 5, flags: 6})[0]
	want := new(args).pointer(1).pointer(2).pointer(3).pointer(4).pointer(5).pointer(7).pointer(6)
	want.int32(36, 3, 12, 2, 128, 1024, 700, 1000, 2048, 0, 1).float32(1.4426950408889634)
	words := 2*8 + 208 // of 8 heads · 128 elements, a fifth, in fours
	if k.kernel != "ga_attention_decode_bf16_tensor_128" || k.grid != (dim3{x: 5, y: 6}) || k.shared != 4*(8*8*128+5*words) || !k.overlap ||
		string(k.args.bytes) != string(want.bytes) || plan.flags != int64(6*5*5*words*4) {
		t.Errorf("plan %+v, call %+v", plan, k)
	}
}
