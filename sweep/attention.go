package sweep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

const headsExpected = "heads of queries, heads of keys and values and elements of a head, as in q32kv8d128, possibly a window and m, as in m512q32kv8d128w4096"

// ParseHeads reads the sizes of an attention, "q32kv8d128" or "m512q32kv8d128w4096".
func ParseHeads(s string) (Target, error) {
	var t Target
	reason := scanSizes(strings.ToLower(strings.TrimSpace(s)), "q, kv, d, w and m", []sizeField{
		{"kv", &t.Heads.KV, true}, {"q", &t.Heads.Query, true}, {"d", &t.Heads.Dim, true}, {"w", &t.Window, false}, {"m", &t.M, false},
	})
	if reason == "" {
		if err := t.Heads.Validate(); err != nil {
			reason = err.Error()
		}
	}
	if reason != "" {
		return Target{}, &SyntaxError{"shape", s, reason, headsExpected}
	}
	return t, nil
}

// ParseModelHeads are the attentions of a model, by name or by the path of a Hugging Face
// config.json, as one of tp ranks computes them.
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

// Attention are the model's attentions, as one of tp ranks computes them: one, where its layers are
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

// subject is what a target computes with activations of a type. The error says why its weights can't
// be quantised so.
func (t Target) subject(d kernels.DType, layout kernels.Layout, weights kernels.Quantisation) (kernels.Subject, error) {
	if t.Operation == kernels.GEMM {
		s := kernels.Product(d, t.N, t.K)
		s.Layout, s.Products = layout, t.Products
		var err error
		if s.Weights, err = weights.Format(d, t.K); err != nil {
			err = fmt.Errorf("%s %s with weights %v: %w", d, s.Size(), weights, err)
		}
		return s, err
	}
	if isSoftmax(t.Operation) {
		if weights != (kernels.Quantisation{}) {
			return kernels.Subject{}, fmt.Errorf("%v has no weights that could be %v", t.Operation, weights)
		}
		return kernels.Subject{Operation: t.Operation, DType: d, Dims: kernels.Dims{Columns: t.Columns, Queries: t.Queries}}, nil
	}
	s := kernels.Subject{Operation: t.Operation, DType: d, Dims: kernels.Dims{
		QueryHeads: t.Heads.Query, KVHeads: t.Heads.KV, HeadDim: t.Heads.Dim, Window: t.Window,
	}}
	if weights != (kernels.Quantisation{}) {
		return s, fmt.Errorf("%v has no weights that could be %v", t.Operation, weights)
	}
	return s, nil
}

// Operations lists what can be swept: the passes of a whole decoder are timed by the
// decoder.
func Operations() []kernels.Operation {
	return []kernels.Operation{kernels.GEMM, kernels.AttentionPrefill, kernels.AttentionDecode, kernels.Softmax, kernels.LogSoftmax}
}

// ParseOperations reads names of [Operations]; "attention" stands for those of prefill and
// of decode.
func ParseOperations(names []string) ([]kernels.Operation, error) {
	var known []string
	for _, o := range Operations() {
		known = append(known, o.String())
	}
	var out []kernels.Operation
	for _, name := range names {
		if strings.EqualFold(strings.TrimSpace(name), "attention") {
			out = append(out, kernels.AttentionPrefill, kernels.AttentionDecode)
			continue
		}
		o, err := kernels.ParseOperation(name)
		if err != nil || !slices.Contains(Operations(), o) {
			return nil, fmt.Errorf("unknown operation %q: expected one of %s, attention", name, strings.Join(known, ", "))
		}
		out = append(out, o)
	}
	return out, nil
}

// ParseTarget reads a shape of an operation; see [ParseProduct], [ParseHeads] and
// [ParseColumns].
func ParseTarget(o kernels.Operation, s string) (Target, error) {
	parse := ParseHeads
	switch {
	case o == kernels.GEMM:
		parse = ParseProduct
	case isSoftmax(o):
		parse = ParseColumns
	}
	t, err := parse(s)
	t.Operation = o
	return t, err
}

// ModelTargets are what a model asks of an operation, as one of tp ranks computes it; see
// [ParseModel], [ParseModelHeads] and [ParseModelColumns].
func ModelTargets(o kernels.Operation, spec string, tp int) ([]Target, error) {
	if o == kernels.GEMM {
		return ParseModel(spec, tp)
	}
	targets, err := ParseModelHeads(spec, tp)
	if isSoftmax(o) {
		var t Target
		t, err = ParseModelColumns(spec, tp)
		targets = []Target{t}
	}
	for i := range targets {
		targets[i].Operation = o
	}
	return targets, err
}
