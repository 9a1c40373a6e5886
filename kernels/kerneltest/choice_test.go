package kerneltest

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// TestCheckChoice: a kernel that tells what it runs passes, and one that tells anything else
// does not.
func TestCheckChoice(t *testing.T) {
	label := func(kernels.Problem) string { return "right" }
	tiling := func(kernels.Problem) kernels.Tiling {
		return kernels.Tiling{Tile: [3]int{64, 64, 32}, Waves: 2, Split: 1}
	}
	say := func(label string, t kernels.Tiling, err error) func(kernels.Problem) (kernels.Choice, error) {
		return func(kernels.Problem) (kernels.Choice, error) { return kernels.Choice{Label: label, Tiling: t}, err }
	}
	other := tiling(kernels.Problem{})
	other.Split = 2
	for _, c := range []struct {
		name  string
		cfg   GemmConfig
		wrong string
	}{
		{"same", GemmConfig{Label: label, Tiling: tiling}, ""},
		{"label", GemmConfig{Label: label, Tiling: tiling, Choice: say("wrong", tiling(kernels.Problem{}), nil)}, `"wrong" was told, and "right" ran`},
		{"split", GemmConfig{Label: label, Tiling: tiling, Choice: say("right", other, nil)}, "Split:2"},
		{"untold", GemmConfig{}, "untold does not tell what it would run"},
		{"refused", GemmConfig{DTypes: []kernels.DType{}, Choice: say("right", other, nil)}, ""},
	} {
		c.cfg.Name, c.cfg.Cost = c.name, func(kernels.Problem) float64 { return 1e-3 }
		d := New(Config{Gemms: []GemmConfig{c.cfg}})
		p := kernels.Problem{Shape: kernels.Shape{M: 3, N: 64, K: 64}, DType: kernels.FP32, BLayout: kernels.Transposed}
		err := CheckChoice(t.Context(), d, Tellers(d, 1)[0], p)
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, expected %q", c.name, err, c.wrong)
		}
	}
}
