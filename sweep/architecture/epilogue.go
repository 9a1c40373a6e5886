package architecture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// layerEpilogues are what layers of some types do with their products; see architectures.yaml.
type layerEpilogues struct {
	Types      []string           `yaml:"types"`
	Bias       map[string]formula `yaml:"bias"`
	Activation string             `yaml:"activation"`
	Normed     bool               `yaml:"normed"`
}

// Finish is what a layer does with the result of a weight matrix before the next product.
type Finish struct {
	// Epilogue is a bias, gates, or the sum with the residual stream. It is 0 for nothing that is known, and for experts.
	Epilogue kernels.Epilogue
	// Beyond names a step that no epilogue computes; empty for none.
	Beyond string
}

// Finish returns what follows a weight matrix. The error names a field of the configuration.
func (m *Model) Finish(w Weight) (f Finish, err error) {
	i := slices.IndexFunc(m.epilogues, func(e layerEpilogues) bool { return slices.Contains(e.Types, m.Type) })
	if i < 0 || w.Experts > 0 || !w.PerLayer || m.kind.ByClass {
		return f, nil
	}
	of := m.epilogues[i]
	switch _, part, shared := cutLast(w.Part); {
	case part == "gate_up_proj":
		if act := m.activation(of.Activation); act == silu {
			f.Epilogue = kernels.Gated
		} else {
			f.Beyond = fmt.Sprintf("its gates are %s, those of the epilogue %v are %s", act, kernels.Gated, silu)
		}
	case (part == "o_proj" || part == "down_proj") && !shared && !of.Normed:
		f.Epilogue = kernels.Residual
	}
	engine := w.Part
	for _, p := range m.parts {
		if slices.Contains(p.Fuses, w.Part) {
			engine = p.Name
		}
	}
	has, known := of.Bias[engine]
	if !known {
		return f, nil
	}
	bias, err := has.truth(func(name string) (any, error) { return m.field(name), nil })
	if err != nil {
		return Finish{}, fmt.Errorf("the bias of %s: %w", w.Part, err)
	}
	if bias {
		f.Epilogue += kernels.Bias
	}
	return f, nil
}

const silu = "silu"

// cutLast cuts a name around its last dot.
func cutLast(name string) (before, after string, found bool) {
	i := strings.LastIndexByte(name, '.')
	return name[:max(0, i)], name[i+1:], i >= 0
}

// activation is the function of gates, missing if no field names it.
func (m *Model) activation(missing string) string {
	for _, name := range []string{"hidden_activation", "hidden_act"} {
		if act, ok := m.field(name).(string); ok {
			return act
		}
	}
	return cmp.Or(missing, silu)
}
