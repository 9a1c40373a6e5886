package sweep

import (
	"fmt"
	"strings"
)

// ParseModelColumns returns the softmax over a model's vocabulary as one of tp ranks computes it. spec is a
// name or the path of a Hugging Face config.json.
func ParseModelColumns(spec string, tp int) (Target, error) {
	m, err := findModel(spec)
	if err != nil {
		if name, _, cut := strings.Cut(spec, ":"); cut {
			if _, known := findModel(name); known == nil {
				return Target{}, fmt.Errorf("model %q: softmax belongs to no projection: expected %s", spec, name)
			}
		}
		return Target{}, err
	}
	switch {
	case tp < 1 || tp > MaxTP:
		return Target{}, fmt.Errorf("tensor parallelism %d of %s: expected 1 to %d", tp, m.Name, MaxTP)
	case m.Vocab < 1:
		return Target{}, fmt.Errorf("%s does not say how many tokens its vocabulary has", m.Name)
	case m.Vocab%tp != 0:
		return Target{}, fmt.Errorf("the vocabulary of %s can't be split over %d ranks: it has %d tokens", m.Name, tp, m.Vocab)
	}
	t := Target{Name: m.Name + ":logits", Model: m.Name, Columns: m.Vocab / tp}
	if tp > 1 {
		t.Name += fmt.Sprintf(" tp%d", tp)
	}
	return t, nil
}
