package attention

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func attentionProblems(t *testing.T, d kernels.DType) []Problem {
	t.Helper()
	var out []Problem
	for _, heads := range []kernels.Heads{{Query: 32, KV: 8, Dim: 128}, {Query: 1, KV: 1, Dim: 64}, {Query: 3, KV: 1, Dim: 128},
		{Query: 4, KV: 2, Dim: 80}, {Query: 71, KV: 71, Dim: 256}} {
		for _, rows := range []int{1, 2, 17, 128, 300, 8192} {
			for _, before := range []int{0, 1, 1000, 32768 - rows} {
				for _, window := range []int{0, 1, 100, 4096} {
					need := rows + before
					if window > 0 {
						need = rows + min(before, window-1)
					}
					o := kernels.Attention{
						Rows: rows, Heads: heads, DType: d, Window: window, Scale: 0.1, LDQ: heads.Width(), Length: rows + before,
						Cache: kernels.KVCache{Capacity: planning.DivideUp(need, kernels.CacheGranule) * kernels.CacheGranule},
					}
					p, err := NewProblem(o)
					if err != nil {
						t.Fatalf("%+v: %v", o, err)
					}
					out = append(out, p)
					p.aligned, p.LDQ = d.Size(), p.LDQ+1
					out = append(out, p)
				}
			}
		}
	}
	return out
}

func TestPlannedAttention(t *testing.T) {
	const base = 1 << 32
	for _, f := range attentionFamilies {
		t.Run(f.Name(), func(t *testing.T) {
			used := map[string]bool{}
			for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
				for _, p := range attentionProblems(t, d) {
					off := uint64(p.aligned % 16)
					for _, a := range cudatest.Archs {
						if f.Supports(a, p) != "" {
							continue
						}
						plans := []attentionPlan{f.Plan(a, p)}
						if c, ok := f.(planning.Chooser[Problem, Addresses]); ok {
							plans = c.Candidates(a, p)
						}
						for _, plan := range plans {
							if plan.Label == "" || !(plan.Seconds > 0) || plan.Scratch < 0 || plan.Flags < 0 {
								t.Fatalf("%d, %+v: plan %+v", a.CC, p, plan)
							}
							calls := plan.Bind(Addresses{
								q: base + off, keys: 2 * base, values: 3 * base, out: 4 * base, position: 5 * base,
								scratch: 6 * base, Flags: 7 * base,
							})
							if len(calls) == 0 {
								t.Fatalf("%d, %+v: no launches", a.CC, p)
							}
							for _, c := range calls {
								if err := cudatest.CheckCall(a, c); err != nil {
									t.Fatalf("%d, %+v, %s: %v", a.CC, p, plan.Label, err)
								}
								used[c.Kernel] = true
							}
						}
					}
				}
			}
			prefix := map[string]string{"naive": "ga_attention_naive_", "decode": "ga_attention_decode_", "flash": "ga_flash_"}[f.Name()]
			if prefix == "" {
				t.Fatalf("no prefix is known of the symbols of %s", f.Name())
			}
			cudatest.Unused(t, prefix, used)
		})
	}
}

func TestPickAttention(t *testing.T) {
	for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
		for _, p := range attentionProblems(t, d) {
			for _, a := range cudatest.Archs {
				best, _, ok := planning.Pick(attentionFamilies, a, p)
				if ok != (planning.TypeReason(a, d) == "") {
					t.Fatalf("%d, %+v: picked is %v", a.CC, p, ok)
				}
				if ok && p.rows >= 128 && p.window != 1 && p.heads.Query == 32 && (flash{}).Supports(a, p) == "" && best.Name() != "flash" {
					t.Fatalf("%d, %+v: picked %s", a.CC, p, best.Name())
				}
			}
		}
	}
}

func TestAttentionPairs(t *testing.T) {
	for _, rows := range []int{1, 2, 7, 30} {
		for _, length := range []int{30, 31, 64, 65} {
			for _, window := range []int{0, 1, 2, 29, 30, 31, 32, 64, 100} {
				p := Problem{rows: rows, length: length, window: window}
				want := 0
				for position := length - rows; position < length; position++ {
					n := position + 1
					if window > 0 {
						n = min(n, window)
					}
					want += n
				}
				if got := p.pairs(); got != float64(want) {
					t.Errorf("%d rows to %d, window %d: %v pairs, want %d", rows, length, window, got, want)
				}
			}
		}
	}
}

func TestAttentionSizes(t *testing.T) {
	sound := kernels.Attention{
		Rows: 4, Heads: kernels.Heads{Query: 4, KV: 2, Dim: 64}, DType: kernels.FP16, Scale: 0.125, LDQ: 256, Length: 256,
		Cache: kernels.KVCache{Capacity: 256},
	}
	if _, err := NewProblem(sound); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*kernels.Attention)
		want   string
	}{
		{func(o *kernels.Attention) { o.Rows = 0 }, "rows: 0, expected at least 1"},
		{func(o *kernels.Attention) { o.Heads.KV = 3 }, "4 query heads do not divide"},
		{func(o *kernels.Attention) { o.DType = kernels.INT8 }, `dtype: "int8", expected fp32, fp16 or bf16`},
		{func(o *kernels.Attention) { o.Window = -1 }, "window: -1"},
		{func(o *kernels.Attention) { o.Scale = 0 }, "scale: 0, expected a positive number"},
		{func(o *kernels.Attention) { o.Scale = 1e40 }, "scale: 1e+40"},
		{func(o *kernels.Attention) { o.LDQ = 255 }, "ldq: 255, expected at least the queries' 256 columns"},
		{func(o *kernels.Attention) { o.Length = 3 }, "length: 3, expected at least the 4 rows"},
		{func(o *kernels.Attention) { o.Length = 257 }, "cache: capacity 256, expected at least 257: 4 rows and the 253 positions"},
		{func(o *kernels.Attention) { o.Length, o.Window = 1000, 254 },
			"cache: capacity 256, expected at least 257: 4 rows and the 253 positions"},
		{func(o *kernels.Attention) { o.Cache.Capacity = 300 }, "cache: capacity 300, expected a multiple of 256"},
		{func(o *kernels.Attention) {
			o.Heads = kernels.Heads{Query: 1 << 20, KV: 1, Dim: 1 << 20}
			o.LDQ = 1 << 40
		}, "an extent is beyond"},
	} {
		o := sound
		c.change(&o)
		if _, err := NewProblem(o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	within := sound
	within.Length, within.Window = 1000, 253
	if p, err := NewProblem(within); err != nil || p.before() != 252 || p.width() != 253 {
		t.Errorf("got %s, %v", fmt.Sprint(p), err)
	}
}
