package cuda

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestWMMASupports(t *testing.T) {
	for _, c := range []struct {
		a    arch
		d    kernels.DType
		want string
	}{
		{t4Arch, kernels.FP16, ""}, {t4Arch, kernels.INT8, ""},
		{t4Arch, kernels.BF16, "bf16 needs compute capability 8.0, this GPU has 7.5"},
		{t4Arch, kernels.TF32, "tf32 needs compute capability 8.0, this GPU has 7.5"},
		{h200Arch, kernels.BF16, ""}, {h200Arch, kernels.TF32, ""},
		{h200Arch, kernels.FP32, "tensor cores have no fp32: tf32 is what they make of it"},
		{h200Arch, kernels.FP8, "the WMMA API has no fp8"},
	} {
		if got := (wmma{}).Supports(c.a, gemmProblem{Problem: normalized(t, 5, 7, 9, c.d)}); got != c.want {
			t.Errorf("%s on %d: %q, want %q", c.d, c.a.cc, got, c.want)
		}
	}
}

func TestWMMAChoosesTiles(t *testing.T) {
	for _, c := range []struct {
		a       arch
		m, n, k int
		want    string
	}{
		{h200Arch, 8192, 8192, 8192, "128x128"},
		{h200Arch, 256, 4096, 4096, "64x64"},
		{h200Arch, 1, 4096, 4096, "16x64"},
		{h200Arch, 16, 14336, 4096, "16x64"},
		{t4Arch, 4096, 4096, 4096, "128x128"},
		{t4Arch, 16, 4096, 4096, "16x64"},
	} {
		if got := (wmma{}).Plan(c.a, gemmProblem{normalized(t, c.m, c.n, c.k, kernels.FP16), alignment{16, 16}}).label; got != c.want {
			t.Errorf("m%d n%d k%d on %d: %s, want %s", c.m, c.n, c.k, c.a.cc, got, c.want)
		}
	}
}

// TestWMMAModel: what is expected of wmma lies between what the tensor cores and memory
// allow and what is expected of the CUDA cores.
func TestWMMAModel(t *testing.T) {
	for _, a := range testArchs {
		for _, m := range []int{1, 16, 300, 4096} {
			p := normalized(t, m, 4096, 4096, kernels.FP16)
			got := (wmma{}).Plan(a, gemmProblem{p, alignment{16, 16}}).seconds
			clocks := float64(m) * 4096 / 128 * 4096 * 2 / 32 * mmaClocks(a, p.DType) / float64(a.sms)
			least := max(clocks/(a.clockMHz*1e6), p.Shape.Bytes(p.DType)/a.bandwidth)
			if got < least {
				t.Errorf("%d, m%d: %g s, the least is %g", a.cc, m, got, least)
			}
			if cores := (tiled{}).Plan(a, gemmProblem{p, alignment{16, 16}}).seconds; m >= 300 && got > cores {
				t.Errorf("%d, m%d: %g s, the CUDA cores take %g", a.cc, m, got, cores)
			}
		}
	}
}
