//go:build cuda

package cuda

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Fused products past the gate, with every kernel and epilogue.
func TestFused(t *testing.T) {
	d := gpu(t)
	for _, k := range d.Kernels(kernels.FusedGEMM) {
		t.Run(k.Name(), func(t *testing.T) {
			passed := 0
			for _, dt := range kernels.FusedGEMM.Definition().DTypes {
				found, errs := kernels.FusedGEMM.Definition().Gate(t.Context(), d, []kernels.Kernel{k}, dt, 1)
				if errs[0] != nil {
					t.Errorf("%s: %v", dt, errs[0])
				}
				passed += found[0].Passed
				t.Logf("%s: %d cases, %.3f of the bound, refused %v", dt, found[0].Passed, found[0].Margin, found[0].Skipped)
			}
			if passed == 0 {
				t.Error("refuses every fused product")
			}
		})
	}
}
