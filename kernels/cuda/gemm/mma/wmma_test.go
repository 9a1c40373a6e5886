package mma

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/cores"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func TestWMMASupports(t *testing.T) {
	for _, c := range []struct {
		a    planning.Arch
		d    kernels.DType
		want string
	}{
		{cudatest.T4, kernels.FP16, ""}, {cudatest.T4, kernels.INT8, ""},
		{cudatest.T4, kernels.BF16, "bf16 needs compute capability 8.0, this GPU has 7.5"},
		{cudatest.T4, kernels.TF32, "tf32 needs compute capability 8.0, this GPU has 7.5"},
		{cudatest.H200, kernels.BF16, ""}, {cudatest.H200, kernels.TF32, ""},
		{cudatest.H200, kernels.FP32, "tensor cores have no fp32: use tf32"},
		{cudatest.H200, kernels.FP8, "the WMMA API has no fp8"},
	} {
		if got := (WMMA{}).Supports(c.a, gemm.Problem{Task: cudatest.Normalized(t, 5, 7, 9, c.d)}); got != c.want {
			t.Errorf("%s on %d: %q, want %q", c.d, c.a.CC, got, c.want)
		}
	}
}

func TestWMMAChoosesTiles(t *testing.T) {
	for _, c := range []struct {
		a       planning.Arch
		m, n, k int
		want    string
	}{
		{cudatest.H200, 8192, 8192, 8192, "128x128"},
		{cudatest.H200, 256, 4096, 4096, "64x64"},
		{cudatest.H200, 1, 4096, 4096, "16x64"},
		{cudatest.H200, 16, 14336, 4096, "16x64"},
		{cudatest.T4, 4096, 4096, 4096, "128x128"},
		{cudatest.T4, 16, 4096, 4096, "16x64"},
	} {
		if got := (WMMA{}).Plan(c.a, gemm.NewProblem(cudatest.Normalized(t, c.m, c.n, c.k, kernels.FP16), 16, 16)).Label; got != c.want {
			t.Errorf("m%d n%d k%d on %d: %s, want %s", c.m, c.n, c.k, c.a.CC, got, c.want)
		}
	}
}

// Wmma's expected time lies between the limit of tensor cores and memory, and the expected time on CUDA
// cores.
func TestWMMAModel(t *testing.T) {
	for _, a := range cudatest.Archs {
		for _, m := range []int{1, 16, 300, 4096} {
			p := cudatest.Normalized(t, m, 4096, 4096, kernels.FP16)
			got := (WMMA{}).Plan(a, gemm.NewProblem(p, 16, 16)).Seconds
			clocks := float64(m) * 4096 / 128 * 4096 * 2 / 32 * planning.TensorClocks(a, p.DType) / float64(a.SMs)
			least := max(clocks/(a.ClockMHz*1e6), p.Shape().Bytes(p.DType)/a.Bandwidth)
			if got < least {
				t.Errorf("%d, m%d: %g s, the least is %g", a.CC, m, got, least)
			}
			if cores := (cores.Tiled{}).Plan(a, gemm.NewProblem(p, 16, 16)).Seconds; m >= 300 && got > cores {
				t.Errorf("%d, m%d: %g s, the CUDA cores take %g", a.CC, m, got, cores)
			}
		}
	}
}
