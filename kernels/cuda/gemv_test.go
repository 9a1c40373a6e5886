package cuda

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestGemvSupports(t *testing.T) {
	turing := arch{cc: 75, sms: 40, sharedMax: 64 << 10, clockMHz: 1590, bandwidth: 320e9}
	for _, c := range []struct {
		a      arch
		m, k   int
		d      kernels.DType
		reason string
	}{
		{h200Arch, 8, 4096, kernels.BF16, ""},
		{h200Arch, 9, 4096, kernels.BF16, "takes up to 8 rows of A, not 9"},
		{h200Arch, 8, 1 << 30, kernels.FP32, "a row of K 1073741824 is beyond 2 GiB"},
		{turing, 1, 4096, kernels.FP16, ""},
		{turing, 1, 4096, kernels.INT8, ""},
		{turing, 1, 4096, kernels.BF16, "bf16 needs compute capability 8.0, this GPU has 7.5"},
	} {
		if got := (gemv{}).Supports(c.a, gemmProblem{Problem: narrowProblem(t, c.m, 64, c.k, c.d)}); got != c.reason {
			t.Errorf("m%d k%d %s: %q, want %q", c.m, c.k, c.d, got, c.reason)
		}
	}
}

// TestGemvDecisions: two steps in flight where blocks are few; where they are many, one,
// so that more blocks run at once. Measured so on an H200.
func TestGemvDecisions(t *testing.T) {
	for _, c := range []struct {
		m, n, k int
		d       kernels.DType
		label   string
	}{
		{1, 4096, 4096, kernels.BF16, "8 warps 2 ahead"},
		{8, 6144, 4096, kernels.BF16, "8 warps 1 ahead"},
		{1, 14336, 4096, kernels.BF16, "4 warps 1 ahead"},
		{1, 4096, 14336, kernels.BF16, "8 warps 2 ahead"},
		{1, 4096, 4096, kernels.FP32, "8 warps 1 ahead"},
	} {
		p := narrowProblem(t, c.m, c.n, c.k, c.d)
		if got := (gemv{}).Plan(h200Arch, gemmProblem{p, alignment{16, 16}}).label; got != c.label {
			t.Errorf("%v %s: %q, want %q", p.Shape, c.d, got, c.label)
		}
	}
}

// TestGemvCall: the launch as gemv.cu's struct Params has it.
func TestGemvCall(t *testing.T) {
	p := narrowProblem(t, 3, 100, 70, kernels.FP32)
	p.LDA, p.LDC = 71, 101
	k := gemvChoice{ahead: 1, warps: 6}.call(h200Arch, gemmProblem{p, alignment{4, 4}}, addresses{a: 4, b: 1 << 20, c: 8, ldb: 72})
	want := new(args).pointer(4).pointer(1<<20).pointer(8).int64(71).int64(72).int64(101).int32(3, 100, 70, 0)
	if k.kernel != "ga_gemv_fp32_1x4" || k.grid.x != 7 || k.block.x != 192 || k.shared != 6*8*20*4 || !k.overlap ||
		string(k.args.bytes) != string(want.bytes) {
		t.Errorf("call %+v", k)
	}
	old := arch{cc: 86, sms: 84, sharedMax: 99 << 10, clockMHz: 1860, bandwidth: 936e9}
	p.DType = kernels.INT8
	if k := (gemvChoice{ahead: 2, warps: 8}).call(old, gemmProblem{p, alignment{16, 4}}, addresses{}); k.kernel != "ga_gemv_int8_2x8" || k.overlap || k.grid.x != 7 {
		t.Errorf("call %+v", k)
	}
}
