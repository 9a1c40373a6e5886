package kerneltest

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

func TestCheckChoice(t *testing.T) {
	label := func(kernels.Task) string { return "right" }
	tiling := func(kernels.Task) kernels.Tiling {
		return kernels.Tiling{Tile: [3]int{64, 64, 32}, Waves: 2, Split: 1}
	}
	say := func(label string, t kernels.Tiling, err error) func(kernels.Task) (kernels.Choice, error) {
		return func(kernels.Task) (kernels.Choice, error) { return kernels.Choice{Label: label, Tiling: t}, err }
	}
	other := tiling(kernels.Task{})
	other.Split = 2
	for _, c := range []struct {
		name  string
		cfg   simulated.KernelConfig
		wrong string
	}{
		{"same", simulated.KernelConfig{Label: label, Tiling: tiling}, ""},
		{"label", simulated.KernelConfig{Label: label, Tiling: tiling, Choice: say("wrong", tiling(kernels.Task{}), nil)},
			`"wrong" was told, and "right" ran`},
		{"split", simulated.KernelConfig{Label: label, Tiling: tiling, Choice: say("right", other, nil)}, "Split:2"},
		{"untold", simulated.KernelConfig{}, "untold does not report its choice"},
		{"refused", simulated.KernelConfig{DTypes: []kernels.DType{}, Choice: say("right", other, nil)}, ""},
	} {
		c.cfg.Name, c.cfg.Cost = c.name, func(kernels.Task) float64 { return 1e-3 }
		d := simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{c.cfg}})
		p := kernels.Task{Subject: kernels.Linear(kernels.FP32, 64, 64), M: 3}
		err := CheckChoice(t.Context(), d, Tellers(d, 1)[0], p)
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, expected %q", c.name, err, c.wrong)
		}
	}
}
