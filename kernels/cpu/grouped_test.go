package cpu

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestGroupedGate(t *testing.T) {
	dev := open(t, 2)
	for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8, kernels.FP8} {
		ks, quantized := dev.Kernels(kernels.GroupedGEMM), 0
		for _, task := range kernels.GroupedGEMM.Definition().Cases(d) {
			if task.Quantized() {
				quantized++
			}
		}
		found, errs := kernels.GroupedGEMM.Definition().Gate(t.Context(), dev, ks, d, 1)
		for i, k := range ks {
			if errs[i] != nil && !knownFault(dev, errs[i]) {
				t.Errorf("%s: %v", k.Name(), errs[i])
			}
			if found[i].Passed == 0 && dev.gemm(k.Name()).Supports(kernels.Task{Subject: kernels.Product(d, 8, 8), M: 1}) == nil {
				t.Errorf("%s %s: no grouped product passed: %v", k.Name(), d, found[i].Skipped)
			}
			if cases := len(found[i].Skipped) + found[i].Passed; takesAll(k.Name(), d) && found[i].Passed < min(quantized, cases) {
				t.Errorf("%s %s: %d products passed, %d have quantized weights: %v", k.Name(), d, found[i].Passed, quantized,
					found[i].Skipped)
			}
		}
	}
}

// takesAll reports whether a kernel takes all formats of quantized weights with a type of activations.
func takesAll(kernel string, d kernels.DType) bool {
	return kernel == "auto" || d == kernels.FP8 && (kernel == "naive" || kernel == "scaled")
}
