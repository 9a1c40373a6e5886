package cpu

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// libraryKernel returns a device with the library's kernel, or skips the test where the
// library isn't installed.
func libraryKernel(t *testing.T, name string) (*Device, kernels.Gemm) {
	t.Helper()
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	g, err := kernels.FindGemm(d, name)
	if err != nil {
		t.Skip(err)
	}
	return d, g
}

func TestLibrariesPassGate(t *testing.T) {
	for _, name := range []string{"openblas", "onednn"} {
		d, g := libraryKernel(t, name)
		for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
			t.Run(name+"/"+string(dt), func(t *testing.T) {
				s, err := kernels.GateKernel(t.Context(), d, g, dt, 1)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%s: %d passed, %d refused, margin %.3f", g.Describe(), s.Passed, len(s.Skipped), s.Margin)
				if len(s.Skipped) > 0 {
					t.Log(s.Skipped[0])
				}
				if len(s.Skipped) > 0 && s.Passed > 0 {
					t.Errorf("%d problems of a supported type were refused", len(s.Skipped))
				}
				if dt == kernels.FP32 && s.Passed == 0 {
					t.Error("fp32 was refused")
				}
			})
		}
	}
}
