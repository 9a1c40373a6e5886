package sweep

import (
	"fmt"
	"strings"
)

// ParseModelHeads returns the attentions of a model as one of tp ranks computes them. spec is a name or the
// path of a Hugging Face config.json.
func ParseModelHeads(spec string, tp int) ([]Target, error) {
	m, err := findModel(spec)
	if err != nil {
		if name, _, cut := strings.Cut(spec, ":"); cut {
			if _, known := findModel(name); known == nil {
				return nil, fmt.Errorf("model %q: attention belongs to no projection: expected %s", spec, name)
			}
		}
		return nil, err
	}
	return m.Attention(tp)
}

// Attention returns the model's attentions as one of tp ranks computes them: a single one if all layers are
// alike.
func (m Model) Attention(tp int) ([]Target, error) {
	if tp < 1 || tp > MaxTP {
		return nil, fmt.Errorf("tensor parallelism %d of %s: expected 1 to %d", tp, m.Name, MaxTP)
	}
	all, err := m.arch.Attention(tp)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", m.Name, err)
	}
	out := make([]Target, len(all))
	for i, a := range all {
		out[i] = Target{Name: rankName(m.Name+":"+a.Name, tp), Model: m.Name, Heads: a.Heads, Layers: a.Layers, NotMeasured: a.Not}
	}
	return out, nil
}
