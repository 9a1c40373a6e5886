package sweep

import (
	"fmt"
	"strings"
)

// ParseModelHeads returns the attentions of a model as one of tp ranks computes them. spec is a name or the
// path of a Hugging Face config.json.
func ParseModelHeads(spec string, tp int) ([]Target, error) {
	m, err := wholeModel(spec, "attention")
	if err != nil {
		return nil, err
	}
	return m.Attention(tp)
}

// wholeModel finds a model for an operation without projections, which no selector names.
func wholeModel(spec, operation string) (Model, error) {
	m, err := findModel(spec)
	if err != nil {
		if name, _, cut := strings.Cut(spec, ":"); cut {
			if _, known := findModel(name); known == nil {
				err = fmt.Errorf("model %q: %s belongs to no projection: expected %s", spec, operation, name)
			}
		}
	}
	return m, err
}

// Attention returns the model's attentions as one of tp ranks computes them: a single one if all layers are
// alike.
func (m Model) Attention(tp int) ([]Target, error) {
	if err := m.checkTP(tp); err != nil {
		return nil, err
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

// ParseModelColumns returns the softmax over a model's vocabulary as one of tp ranks computes it. spec is a
// name or the path of a Hugging Face config.json.
func ParseModelColumns(spec string, tp int) (Target, error) {
	m, err := wholeModel(spec, "softmax")
	if err == nil {
		err = m.checkTP(tp)
	}
	switch {
	case err != nil:
		return Target{}, err
	case m.Vocab < 1:
		return Target{}, fmt.Errorf("%s does not say how many tokens its vocabulary has", m.Name)
	case m.Vocab%tp != 0:
		return Target{}, fmt.Errorf("the vocabulary of %s can't be split over %d ranks: it has %d tokens", m.Name, tp, m.Vocab)
	}
	return Target{Name: rankName(m.Name+":logits", tp), Model: m.Name, Columns: m.Vocab / tp}, nil
}
