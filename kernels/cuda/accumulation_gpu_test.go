//go:build cuda

package cuda

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// TestFastAccumulation measures how much of the gate's error bound fp8 uses, with sums kept in the tensor
// core and with promoted sums.
func TestFastAccumulation(t *testing.T) {
	d := gpu(t)
	lt, err := kernels.Find(d, kernels.GEMM, "cublaslt")
	if err != nil {
		t.Skip(err)
	}
	fast, err := kernels.Find(d, kernels.GEMM, "cublaslt-fast")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := kernels.Find(d, kernels.GEMM, "auto")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []kernels.Kernel{lt, fast, ours} {
		s, err := kernels.CheckKernel(t.Context(), d, g, kernels.FP8, 7)
		t.Logf("%s: %d passed, %.2f of the bound used, %v", g.Name(), s.Passed, s.Margin, err)
	}
}
