//go:build cuda

package cuda

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Loops over the groups, with routings of every kind: idle groups, a row, all rows in one group.
func TestGrouped(t *testing.T) {
	d := gpu(t)
	for _, dt := range []kernels.DType{kernels.BF16, kernels.FP16, kernels.FP32} {
		ks := d.Kernels(kernels.GroupedGEMM)
		found, errs := kernels.GroupedGEMM.Definition().Gate(t.Context(), d, ks, dt, 1)
		passed := 0
		for i, k := range ks {
			if errs[i] != nil {
				t.Errorf("%s %s: %v", k.Name(), dt, errs[i])
			}
			passed += found[i].Passed
		}
		if passed == 0 {
			t.Errorf("%s: every kernel refuses every grouped product", dt)
		}
	}
}
