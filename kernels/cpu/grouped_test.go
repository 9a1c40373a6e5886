package cpu

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestGroupedGate(t *testing.T) {
	dev := open(t, 2)
	for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
		ks := dev.Kernels(kernels.GroupedGEMM)
		found, errs := kernels.GroupedGEMM.Definition().Gate(t.Context(), dev, ks, d, 1)
		for i, k := range ks {
			if errs[i] != nil && !knownFault(dev, errs[i]) {
				t.Errorf("%s: %v", k.Name(), errs[i])
			}
			if found[i].Passed == 0 && dev.gemm(k.Name()).Supports(kernels.Task{Subject: kernels.Product(d, 8, 8), M: 1}) == nil {
				t.Errorf("%s %s: no grouped product passed: %v", k.Name(), d, found[i].Skipped)
			}
		}
	}
}
