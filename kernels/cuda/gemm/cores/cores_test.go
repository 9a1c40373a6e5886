package cores

import (
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func TestCoreKernelsRefuse(t *testing.T) {
	for _, f := range []gemm.Family{Naive{}, Tiled{}} {
		for _, c := range []struct {
			a    planning.Arch
			d    kernels.DType
			want string
		}{
			{cudatest.T4, kernels.FP32, ""}, {cudatest.T4, kernels.FP16, ""}, {cudatest.T4, kernels.INT8, ""},
			{cudatest.T4, kernels.BF16, "bf16 needs compute capability 8.0, this GPU has 7.5"},
			{cudatest.Archs[2], kernels.FP8, "fp8 needs compute capability 8.9, this GPU has 8.6"},
			{cudatest.H200, kernels.FP8, ""}, {cudatest.H200, kernels.BF16, ""},
			{cudatest.H200, kernels.TF32, "tf32 is a format of tensor cores, which " + f.Name() + " does not use"},
		} {
			if got := f.Supports(c.a, gemm.Problem{Task: cudatest.Normalized(t, 5, 7, 9, c.d)}); got != c.want {
				t.Errorf("%s, %s on %d: %q, want %q", f.Name(), c.d, c.a.CC, got, c.want)
			}
		}
		if got := f.Supports(cudatest.H200,
			gemm.Problem{Task: cudatest.Normalized(t, 1, 1, math.MaxInt32, kernels.INT8)}); !strings.Contains(got, "beyond") {
			t.Errorf("%s: K of 2^31-1: %q", f.Name(), got)
		}
		if got := f.Supports(cudatest.H200,
			gemm.Problem{Task: cudatest.Normalized(t, 1<<30, 1<<30, 1, kernels.INT8)}); !strings.Contains(got, "tiles") {
			t.Errorf("%s: 2^60 outputs: %q", f.Name(), got)
		}
	}
}

func TestTiledChoosesTiles(t *testing.T) {
	for _, c := range []struct {
		a       planning.Arch
		m, n, k int
		want    string
	}{
		{cudatest.H200, 8192, 8192, 8192, "128x128"},
		{cudatest.H200, 1, 4096, 4096, "16x64"},
		{cudatest.H200, 16, 14336, 4096, "16x64"},
		{cudatest.H200, 256, 4096, 4096, "64x64"},
		{cudatest.T4, 4, 4096, 4096, "16x64"},
	} {
		if got := (Tiled{}).Plan(c.a, gemm.NewProblem(cudatest.Normalized(t, c.m, c.n, c.k, kernels.FP32), 16, 16)).Label; got != c.want {
			t.Errorf("m%d n%d k%d on %d: %s, want %s", c.m, c.n, c.k, c.a.CC, got, c.want)
		}
	}
}

// The model respects physical limits. A tiled product is slower than the multipliers and memory allow, and
// naive is slower than tiled.
func TestCoreModels(t *testing.T) {
	for _, a := range cudatest.Archs {
		for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.INT8} {
			for _, m := range []int{1, 16, 200, 1000, 8192} {
				p := cudatest.Normalized(t, m, 4096, 4096, d)
				tiledSeconds := Tiled{}.Plan(a, gemm.NewProblem(p, 16, 16)).Seconds
				floor := p.Shape().FLOPs() / 2 / (planning.CoreRate(a, d) * float64(a.SMs) * a.ClockMHz * 1e6)
				if memory := p.Shape().Bytes(d) / a.Bandwidth; tiledSeconds < max(floor, memory) {
					t.Errorf("%d, %s, m%d: tiled in %g s, the least is %g and %g", a.CC, d, m, tiledSeconds, floor, memory)
				}
				if naiveSeconds := (Naive{}).Plan(a, gemm.NewProblem(p, 16, 16)).Seconds; m >= 200 && naiveSeconds < 2*tiledSeconds {
					t.Errorf("%d, %s, m%d: naive in %g s, tiled in %g", a.CC, d, m, naiveSeconds, tiledSeconds)
				}
			}
		}
	}
}

func TestTiledAlignment(t *testing.T) {
	for _, c := range []struct {
		d     kernels.DType
		align int
		want  byte
	}{
		{kernels.FP32, 16, 1}, {kernels.FP32, 8, 0}, {kernels.FP16, 8, 1}, {kernels.FP16, 4, 0},
		{kernels.INT8, 16, 1}, {kernels.INT8, 8, 0}, {kernels.FP8, 4, 1}, {kernels.FP8, 2, 0},
	} {
		p := cudatest.Normalized(t, 64, 64, 64, c.d)
		args := (Tiled{}).Plan(cudatest.H200, gemm.NewProblem(p, c.align, 16)).Bind(gemm.Addresses{LDB: 64})[0].Args.Bytes
		if got := args[48+6*4]; got != c.want {
			t.Errorf("%s aligned to %d: %d, want %d", c.d, c.align, got, c.want)
		}
	}
}
