package decoder

import (
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func plannedOperations(t *testing.T, a planning.Arch, d kernels.DType) []planning.Call {
	t.Helper()
	var all []planning.Call
	for _, off := range []uint64{0, uint64(d.Size())} {
		const base = 1 << 32
		at := transformerAddresses{
			x: base + off, delta: 2 * base, weight: 3 * base, out: 4 * base, tokens: 5 * base, table: 6 * base, position: 7 * base,
			history: 8 * base, qkv: 9 * base, keys: 10 * base, values: 11 * base, scratch: 12 * base,
		}
		add := func(err error, cs ...planning.Call) {
			if err != nil {
				t.Fatalf("%d, %s: %v", a.CC, d, err)
			}
			all = append(all, cs...)
		}
		for _, rows := range []int{1, 3, 4096, 100_000} {
			for _, n := range []int{1, 7, 64, 4096, 14336, 200_000} {
				c, err := embedCall(a, kernels.Embedding{Rows: rows, Hidden: n, Vocab: 32000, DType: d}, at)
				add(err, c)
				c, err = normalizeCall(a, kernels.Normalization{Rows: rows, Hidden: n, DType: d, FromRow: rows - 1, Epsilon: 1e-5}, at)
				add(err, c)
				c, err = gatedCall(a, kernels.GatedUnit{Rows: rows, Inner: n, DType: d}, at)
				add(err, c)
			}
			for _, h := range []kernels.Heads{{Query: 32, KV: 8, Dim: 128}, {Query: 1, KV: 1, Dim: 2}, {Query: 6, KV: 3, Dim: 80}} {
				o := kernels.Rotation{Rows: rows, Heads: h, DType: d, Positions: 32768}
				o.Cache.Capacity = planning.DivideUp(rows, kernels.CacheGranule) * kernels.CacheGranule
				c, err := rotateCall(a, o, at)
				add(err, c)
			}
		}
		for _, n := range []int{1, 100, 32000, 128256, 1 << 18, 1 << 24} {
			cs, err := chooseCalls(a, kernels.TokenChoice{Vocab: n, DType: d, HistoryLen: 9}, at)
			add(err, cs...)
		}
	}
	return all
}

func TestPlannedOperations(t *testing.T) {
	used := map[string]bool{}
	for _, a := range cudatest.Archs {
		for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
			if planning.TypeReason(a, d) != "" {
				continue
			}
			for _, c := range plannedOperations(t, a, d) {
				if err := cudatest.CheckCall(a, c); err != nil {
					t.Error(err)
				}
				used[c.Kernel] = true
			}
		}
	}
	for _, prefix := range []string{"ga_embed_", "ga_normalize_", "ga_rotate_", "ga_gated_", "ga_choose_"} {
		cudatest.Unused(t, prefix, used)
	}
}

func TestOperationDecisions(t *testing.T) {
	at := transformerAddresses{x: 1 << 20, weight: 2 << 20, out: 3 << 20}
	o := kernels.Normalization{Rows: 10, Hidden: 4096, DType: kernels.BF16, FromRow: 9, Epsilon: 1e-5}
	c, err := normalizeCall(cudatest.H200, o, at)
	want := new(planning.Args).Pointer(1<<20).Pointer(0).Pointer(2<<20).Pointer(3<<20).Float32(1e-5).Int32(4096, 9, 9, 1)
	if err != nil || c.Grid.X != 1 || c.Block.X != 512 || !c.Overlap || string(c.Args.Bytes) != string(want.Bytes) {
		t.Errorf("%+v, %v", c, err)
	}
	at.delta = 1<<20 + 2
	c, err = normalizeCall(cudatest.H200, o, at)
	want = new(planning.Args).Pointer(1<<20).Pointer(1<<20+2).Pointer(2<<20).Pointer(3<<20).Float32(1e-5).Int32(4096, 0, 9, 0)
	if err != nil || c.Grid.X != 10 || string(c.Args.Bytes) != string(want.Bytes) {
		t.Errorf("%+v, %v", c, err)
	}
	o.Hidden = 8192*2 + 8
	if c, err = normalizeCall(cudatest.H200, o, at); err != nil || c.Block.X != 32*22 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, c := range []struct {
		a             planning.Arch
		vocab, blocks int
		launches      int
	}{{cudatest.H200, 1000, 1, 1}, {cudatest.H200, 32000, 4, 1}, {cudatest.H200, 1 << 18, 8, 1}, {cudatest.Archs[1], 1 << 18, 32, 2}} {
		cs, err := chooseCalls(c.a, kernels.TokenChoice{Vocab: c.vocab, DType: kernels.FP16}, at)
		if err != nil || len(cs) != c.launches || cs[0].Grid.X != c.blocks {
			t.Errorf("vocab %d on %d: %+v, %v", c.vocab, c.a.CC, cs, err)
		}
	}
}

func TestOperationSizes(t *testing.T) {
	var at transformerAddresses
	heads := kernels.Heads{Query: 4, KV: 2, Dim: 64}
	rotation := func(change func(*kernels.Rotation)) error {
		o := kernels.Rotation{Rows: 1, Heads: heads, DType: kernels.FP16, Positions: 10}
		o.Cache.Capacity = 256
		change(&o)
		_, err := rotateCall(cudatest.H200, o, at)
		return err
	}
	normalization := func(change func(*kernels.Normalization)) error {
		o := kernels.Normalization{Rows: 2, Hidden: 8, DType: kernels.FP16}
		change(&o)
		_, err := normalizeCall(cudatest.H200, o, at)
		return err
	}
	_, turing := embedCall(cudatest.Archs[0], kernels.Embedding{Rows: 1, Hidden: 1, Vocab: 1, DType: kernels.BF16}, at)
	_, empty := chooseCalls(cudatest.H200, kernels.TokenChoice{Vocab: 0, DType: kernels.FP16}, at)
	_, history := chooseCalls(cudatest.H200, kernels.TokenChoice{Vocab: 1, DType: kernels.FP16}, transformerAddresses{history: 16})
	_, wide := gatedCall(cudatest.H200, kernels.GatedUnit{Rows: math.MaxInt32, Inner: 1, DType: kernels.FP16}, at)
	_, many := gatedCall(cudatest.H200, kernels.GatedUnit{Rows: 1 << 30, Inner: 1 << 30, DType: kernels.FP16}, at)
	for _, c := range []struct {
		err  error
		want string
	}{
		{rotation(func(o *kernels.Rotation) { o.Rows = 257 }), "rows: 257, expected at most the 256 slots"},
		{rotation(func(o *kernels.Rotation) { o.Cache.Capacity = 100 }), "capacity 100, expected a multiple of 256"},
		{rotation(func(o *kernels.Rotation) { o.Heads = kernels.Heads{Query: 1 << 20, KV: 1, Dim: 1 << 20} }),
			"expected at most 2147482623 columns"},
		{rotation(func(o *kernels.Rotation) { o.Positions = 0 }), "positions: 0, expected at least 1"},
		{normalization(func(o *kernels.Normalization) { o.FromRow = 2 }), "from row: 2, expected one of the 2 rows"},
		{normalization(func(o *kernels.Normalization) { o.Epsilon = math.NaN() }), "epsilon: NaN"},
		{turing, "kernel embed does not support bf16: bf16 needs compute capability 8.0"},
		{empty, "vocab: 0, expected at least 1"},
		{history, "history: 0, expected at least 1"},
		{wide, "rows: 2147483647, expected at most 2147482623"},
		{many, "more than a grid holds"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want %s", c.err, c.want)
		}
	}
}
