package sweep

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// finished returns targets once for each epilogue. Targets that are no fused products are returned once.
func (o *Options) finished(targets []Target) []Target {
	var out []Target
	for _, t := range targets {
		if t.Further.Epilogue == 0 || len(o.Epilogues) == 0 {
			out = append(out, t)
			continue
		}
		for _, e := range o.Epilogues {
			t.Further.Epilogue = e
			out = append(out, t)
		}
	}
	return out
}

// FuseLayers returns a model's targets with the epilogues of its layers. Targets without one, and those with quantized weights,
// stay plain products.
func FuseLayers(targets []Target) []Target {
	out := slices.Clone(targets)
	for i := range out {
		if t := &out[i]; t.Epilogue != 0 && t.Stored == (kernels.WeightFormat{}) {
			t.Operation, t.Further.Epilogue = t.Operation.WithEpilogue(), t.Epilogue
		}
	}
	return out
}
