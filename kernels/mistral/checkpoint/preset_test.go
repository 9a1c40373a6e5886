package checkpoint

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestPresets(t *testing.T) {
	parameters := map[string]int64{"mistral-7b": 7248023552, "mixtral-8x7b": 46702792704, "llama3-8b": 8030261248}
	for _, name := range Presets() {
		c, ok := Preset(name)
		if !ok || c.Parameters() != parameters[name] || c.DType != kernels.FP16 || c.Epsilon != 1e-5 {
			t.Errorf("%s: %+v with %d parameters, want %d", name, c, c.Parameters(), parameters[name])
		}
	}
	if c, _ := Preset("mixtral-8x7b"); c.Experts != 8 || c.TopK != 2 || c.Window != 0 || c.RopeTheta != 1e6 || c.Context != 32768 {
		t.Errorf("%+v", c)
	}
	if c, _ := Preset("mistral-7b"); c.Window != 0 || c.Heads != (kernels.Heads{Query: 32, KV: 8, Dim: 128}) {
		t.Errorf("%+v", c)
	}
	if _, ok := Preset("mixtral"); ok {
		t.Error("mixtral is no preset")
	}
}
