//go:build cuda

package cuda

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cublas"
)

// TestFastAccumulation shows how much of the gate's bound fp8 uses where its sums stay in the tensor core, as ours
// do, and where they do not.
func TestFastAccumulation(t *testing.T) {
	d := gpu(t)
	lt, err := kernels.FindGemm(d, "cublaslt")
	if err != nil {
		t.Skip(err)
	}
	fast, err := cublas.FastAccumulation(lt)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := kernels.FindGemm(d, "auto")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []kernels.Gemm{lt, fast, ours} {
		s, err := kernels.CheckKernel(t.Context(), d, g, kernels.FP8, 7)
		t.Logf("%s: %d passed, %.2f of the bound used, %v", g.Name(), s.Passed, s.Margin, err)
	}
	library, err := kernels.FindGemm(d, "cublas")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cublas.FastAccumulation(library); err == nil {
		t.Error("cublasGemmEx was taken for cuBLASLt")
	}
}
