package remedy

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// Limit removes remedies of earlier versions whose kernel no engine can call.
func TestKeptRemediesAreLimited(t *testing.T) {
	cublas, auto := synthetic.Keyed("cublas", kernels.BF16), synthetic.Keyed("auto", kernels.BF16)
	data := infer.Data{Series: []results.Series{{Key: cublas}, {Key: auto}}}
	data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: cublas.Device, Versions: map[string]string{"cublas": "13.1"}}}
	kept := func() *Result {
		return &Result{
			Splits: []Row{
				{cublas, rules.Remedy{Kind: rules.RemedyOther, Kernel: "auto", M: 1, Pays: true}},
				{cublas, rules.Remedy{Kind: rules.RemedyPad, PadTo: 8, M: 2, Pays: true}},
				{cublas, rules.Remedy{Kind: rules.RemedyAlgorithm, Kernel: "cublas:2", M: 3, Pays: true}},
			},
			Stretches: []Stretch{{Series: cublas, Kind: rules.RemedyOther, Kernel: "auto"}},
		}
	}
	for _, c := range []struct {
		named             []string
		splits, stretches int
		auto              bool
	}{{nil, 2, 0, false}, {[]string{"cublas", "auto"}, 3, 1, true}} {
		r := kept()
		r.Limit(data, c.named)
		if len(r.Splits) != c.splits || len(r.Stretches) != c.stretches || !r.Callable(cublas) || r.Callable(auto) != c.auto {
			t.Errorf("engine %v: %d remedies, %d stretches, calls auto: %v", c.named, len(r.Splits), len(r.Stretches), r.Callable(auto))
		}
	}
}
