package sweep

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

const columnsExpected = "columns, possibly queries of a causal mask and m, as in c4096, c512q512 or m32768c16"

func isSoftmax(o kernels.Operation) bool { return o == kernels.Softmax || o == kernels.LogSoftmax }

// ParseColumns reads the sizes of a softmax: its columns, "c4096", and where it has a causal mask the
// queries of a sequence, "c512q512". An M, "m32768c16", is the number of rows.
func ParseColumns(s string) (Target, error) {
	var t Target
	reason := scanSizes(strings.ToLower(strings.TrimSpace(s)), "c, q and m", []sizeField{
		{"c", &t.Columns, true}, {"q", &t.Queries, false}, {"m", &t.M, false},
	})
	if reason == "" && t.Queries > t.Columns {
		reason = fmt.Sprintf("%d queries of %d columns: the first ones would see nothing", t.Queries, t.Columns)
	}
	if reason != "" {
		return Target{}, &SyntaxError{"shape", s, reason, columnsExpected}
	}
	return t, nil
}

// ParseModelColumns is the softmax over the vocabulary of a model, by name or by the path of a Hugging
// Face config.json, as one of tp ranks computes it.
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
