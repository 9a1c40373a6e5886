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
// stay plain products. Notes name the steps that no epilogue computes.
func FuseLayers(targets []Target) (fused []Target, notes []Note) {
	fused = slices.Clone(targets)
	for i := range fused {
		t := &fused[i]
		if t.Beyond != "" {
			notes = append(notes, Note{What: t.Name, Why: t.Beyond + ": it is planned without this step"})
		}
		if t.Epilogue != 0 && t.Stored == (kernels.WeightFormat{}) {
			t.Operation, t.Further.Epilogue = t.Operation.WithEpilogue(), t.Epilogue
		}
	}
	return fused, notes
}
