package architecture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// layerEpilogues are what layers of some types do with their products; see architectures.yaml.
type layerEpilogues struct {
	Types []string           `yaml:"types"`
	Bias  map[string]formula `yaml:"bias"`
}

// Epilogue returns what a layer does with the result of a weight matrix before the next product: a bias, gates, or the sum with
// the residual stream. It is 0 for nothing that is known, and for experts. The error names a field of the configuration.
func (m *Model) Epilogue(w Weight) (kernels.Epilogue, error) {
	i := slices.IndexFunc(m.epilogues, func(e layerEpilogues) bool { return slices.Contains(e.Types, m.Type) })
	if i < 0 || w.Experts > 0 || !w.PerLayer || m.kind.ByClass {
		return 0, nil
	}
	var e kernels.Epilogue
	switch _, part, shared := cutLast(w.Part); {
	case part == "gate_up_proj" && m.activation() == "silu":
		e = kernels.Gated
	case (part == "o_proj" || part == "down_proj") && !shared:
		e = kernels.Residual
	}
	engine := w.Part
	for _, p := range m.parts {
		if slices.Contains(p.Fuses, w.Part) {
			engine = p.Name
		}
	}
	has, known := m.epilogues[i].Bias[engine]
	if !known {
		return e, nil
	}
	bias, err := has.truth(func(name string) (any, error) { return m.field(name), nil })
	if err != nil {
		return 0, fmt.Errorf("the bias of %s: %w", w.Part, err)
	}
	if bias {
		e += kernels.Bias
	}
	return e, nil
}

// cutLast cuts a name around its last dot.
func cutLast(name string) (before, after string, found bool) {
	i := strings.LastIndexByte(name, '.')
	return name[:max(0, i)], name[i+1:], i >= 0
}

// activation is the function of gates.
func (m *Model) activation() string {
	for _, name := range []string{"hidden_act", "hidden_activation"} {
		if act, ok := m.field(name).(string); ok {
			return act
		}
	}
	return "silu"
}
