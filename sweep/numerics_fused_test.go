package sweep

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// Each fault that changes an epilogue's results is found: a remedy's kernel may differ from the direct product's.
func TestNumericsOfFusedProducts(t *testing.T) {
	cost, fused := simulated.Linear(1e10, 5e-6), kernels.GEMM.WithEpilogue()
	config := simulated.Config{Kernels: map[kernels.Operation][]simulated.KernelConfig{}}
	add := func(name string, f kernels.Fault) {
		config.Kernels[fused] = append(config.Kernels[fused], simulated.KernelConfig{Name: name, Cost: cost, Arithmetic: true, Fault: f})
	}
	add("direct", kernels.Fault{})
	add("same", kernels.Fault{})
	faults := fused.Definition().Faults
	for _, f := range faults {
		add(f.Name, f)
	}
	m := newMeasurer(t, simulated.New(config), nil, nil)
	found := map[string]bool{}
	for _, e := range []kernels.Epilogue{kernels.Bias + kernels.GELU, kernels.Gated, kernels.Bias + kernels.Gated, kernels.Residual,
		kernels.Bias + kernels.Residual} {
		for _, s := range []kernels.Subject{kernels.Product(kernels.FP32, 80, 64), kernels.Linear(kernels.BF16, 80, 64)} {
			s.Operation, s.Epilogue = fused, e
			at := func(kernel string, ms ...int) (out []results.Case) {
				for _, m := range ms {
					out = append(out, results.Case{M: m, SeriesKey: results.SeriesKey{Device: "sim", Kernel: kernel, Subject: s,
						Regime: results.Engine}})
				}
				return out
			}
			direct := at("direct", 24, 12)
			// The largest pad gives A another size than the room of copied rows.
			request := results.ResultRequest{Direct: direct, Remedies: [][]results.Case{at("same", 24, 12),
				{padded(direct[0], 200, false)}, {padded(direct[0], 32, true)}, {divided(direct[0], 16, 8)}}}
			right := len(request.Remedies)
			for _, f := range faults {
				request.Remedies = append(request.Remedies, at(f.Name, 24))
			}
			got, ok, err := m.Numerics(t.Context(), request)
			if err != nil || !ok {
				t.Fatalf("%v: %v, %v", s, ok, err)
			}
			for i, n := range got[:right] {
				if n.Failed != "" || n.Wrong > 0 || !n.SameBits || n.Columns != numericColumns || n.DirectError > 0x1p-8 {
					t.Errorf("%v, remedy %d: %+v", s, i, n)
				}
			}
			for i, n := range got[right:] {
				if n.Wrong > 0 && n.SameBits {
					t.Errorf("%v: %s: %+v", s, faults[i].Name, n)
				}
				found[faults[i].Name] = found[faults[i].Name] || n.Wrong > 0
			}
		}
	}
	for _, f := range faults {
		if !found[f.Name] {
			t.Errorf("%s: no epilogue showed it", f.Name)
		}
	}
}
