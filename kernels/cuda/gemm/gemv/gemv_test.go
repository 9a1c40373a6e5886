package gemv

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func TestGemvSupports(t *testing.T) {
	turing := planning.Arch{CC: 75, SMs: 40, SharedMax: 64 << 10, ClockMHz: 1590, Bandwidth: 320e9}
	for _, c := range []struct {
		a      planning.Arch
		m, k   int
		d      kernels.DType
		reason string
	}{
		{cudatest.H200, 8, 4096, kernels.BF16, ""},
		{cudatest.H200, 9, 4096, kernels.BF16, "takes up to 8 rows of A, not 9"},
		{cudatest.H200, 8, 1 << 30, kernels.FP32, "a row of K 1073741824 is beyond 2 GiB"},
		{turing, 1, 4096, kernels.FP16, ""},
		{turing, 1, 4096, kernels.INT8, ""},
		{turing, 1, 4096, kernels.BF16, "bf16 needs compute capability 8.0, this GPU has 7.5"},
	} {
		if got := (Family{}).Supports(c.a, gemm.Problem{Task: cudatest.Normalized(t, c.m, 64, c.k, c.d)}); got != c.reason {
			t.Errorf("m%d k%d %s: %q, want %q", c.m, c.k, c.d, got, c.reason)
		}
	}
}

// Two steps in flight for few blocks; for many, one step, so more blocks are resident, and warps that fill
// the last round. Measured on an H200.
func TestGemvDecisions(t *testing.T) {
	for _, c := range []struct {
		m, n, k int
		d       kernels.DType
		label   string
	}{
		{1, 4096, 4096, kernels.BF16, "8 warps 2 ahead"},
		{8, 6144, 4096, kernels.BF16, "8 warps 1 ahead"},
		{3, 3008, 3904, kernels.FP16, "8 warps 2 ahead"},
		{1, 7104, 1088, kernels.BF16, "6 warps 1 ahead"},
		{1, 4096, 14336, kernels.BF16, "8 warps 2 ahead"},
		{1, 4096, 4096, kernels.FP32, "8 warps 1 ahead"},
	} {
		p := cudatest.Normalized(t, c.m, c.n, c.k, c.d)
		if got := (Family{}).Plan(cudatest.H200, gemm.NewProblem(p, 16, 16)).Label; got != c.label {
			t.Errorf("%v %s: %q, want %q", p.Shape(), c.d, got, c.label)
		}
	}
}

func TestGemvCall(t *testing.T) {
	p := cudatest.Normalized(t, 3, 100, 70, kernels.FP32)
	p.LDA, p.LDC = 71, 101
	k := gemvChoice{ahead: 1, warps: 6}.call(cudatest.H200, gemm.NewProblem(p, 4, 4), gemm.Addresses{A: 4, B: 1 << 20, C: 8, LDB: 72})
	want := new(planning.Args).Pointer(4).Pointer(1<<20).Pointer(8).Int64(71).Int64(72).Int64(101).Int32(3, 100, 70, 0)
	if k.Kernel != "ga_gemv_fp32_1x4" || k.Grid.X != 7 || k.Block.X != 192 || k.Shared != 6*8*20*4 || !k.Overlap ||
		string(k.Args.Bytes) != string(want.Bytes) {
		t.Errorf("call %+v", k)
	}
	old := planning.Arch{CC: 86, SMs: 84, SharedMax: 99 << 10, ClockMHz: 1860, Bandwidth: 936e9}
	p.DType = kernels.INT8
	if k := (gemvChoice{ahead: 2, warps: 8}).call(old, gemm.NewProblem(p, 16, 4), gemm.Addresses{}); k.Kernel != "ga_gemv_int8_2x8" ||
		k.Overlap || k.Grid.X != 7 {
		t.Errorf("call %+v", k)
	}
}
