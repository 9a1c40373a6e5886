package architecture

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

const (
	maxSize   = 1 << 24
	maxLayers = 1 << 12
)

// Model is a language model, given by its configuration.
type Model struct {
	Type   string // model_type
	Layers int    // 0 if the configuration does not give it
	// Elsewhere lists the parts that are not planned, such as vision, in words.
	Elsewhere []string
	// Stored describes the storage of weights; nil for plain weights.
	Stored *Storage

	kind      *kind
	parts     []part
	heads     []attention
	epilogues []layerEpilogues
	let       map[string]formula
	split     map[string]string
	fields    map[string]any
	head      bool
	values    map[string]any // of let
	busy      map[string]bool
}

// Weight is a weight matrix [N,K] as one rank holds it.
type Weight struct {
	Part string
	N, K int
	// Layers is the number of layers with it, 0 if unknown; 1 for lm_head.
	Layers int
	// Experts is the number of such matrices per layer; Active of them process a token. 0 for a plain one.
	Experts, Active int
	// Engine is true for parts of a layer as engines run it.
	Engine bool
	// Of is its place in a layer of the checkpoint; empty for a matrix that engines fuse from the parts in
	// Fuses.
	Of    string
	Fuses []string
	// PerLayer is true for the layers' matrices.
	PerLayer bool
}

// Attention is an attention as one rank computes it.
type Attention struct {
	Name   string
	Heads  kernels.Heads
	Values int // columns of a value; Heads.Dim is for queries and keys
	Layers int
	// Not is why it can't be measured, or "".
	Not string
}

func build(t *table, k *kind, modelType string, head bool, fields map[string]any) *Model {
	m := &Model{Type: modelType, kind: k, head: head, fields: fields, split: t.Split, epilogues: t.Epilogues,
		let: maps.Clone(t.Let), values: map[string]any{}, busy: map[string]bool{}, parts: t.parts(k), heads: k.attentions()}
	maps.Copy(m.let, k.Let)
	return m
}

func (m *Model) value(name string) (any, error) {
	f, ok := m.let[name]
	if !ok || m.busy[name] {
		return m.field(name), nil
	}
	if v, ok := m.values[name]; ok {
		return v, nil
	}
	m.busy[name] = true
	defer delete(m.busy, name)
	v, err := f.defined(m.value)
	if err == nil {
		m.values[name] = v
	}
	return v, err
}

func (m *Model) field(name string) any {
	if v := m.fields[name]; v != nil {
		return v
	}
	return m.kind.Defaults[name]
}

func (m *Model) at(layer, tp int) scope {
	var s scope
	busy := map[string]bool{}
	s = func(name string) (any, error) {
		if name == "i" {
			return layer, nil
		}
		f, ok := m.let[name]
		if !ok || busy[name] {
			return m.field(name), nil
		}
		busy[name] = true
		v, err := f.defined(s)
		delete(busy, name)
		words, shared := m.split[name]
		if n, ok := v.(int); ok && shared && err == nil && len(busy) == 0 {
			return share(name, words, n, tp)
		}
		return v, err
	}
	return s
}

func share(name, words string, n, tp int) (int, error) {
	switch {
	case n%tp == 0:
		return n / tp, nil
	case name == "kv_heads" && n > 0 && tp%n == 0:
		return 1, nil // every rank needs a KV head, so heads are replicated
	}
	return 0, &indivisible{tp, n, words}
}

type indivisible struct {
	ranks, total int
	words        string
}

func (e *indivisible) Error() string {
	return fmt.Sprintf("can't be split over %d ranks: it has %d %s", e.ranks, e.total, e.words)
}

// named prefixes an error with the name of a part, unless it is about a field.
func named(part string, err error) error {
	var ranks *indivisible
	switch {
	case errors.As(err, &ranks):
		return fmt.Errorf("%s %w", part, err)
	case isMissing(err):
		return err
	}
	return fmt.Errorf("%s: %w", part, err)
}

// Parts lists the names of the weight matrices in the order of computation.
func (m *Model) Parts() []string {
	var out []string
	for _, p := range m.parts {
		if !slices.Contains(out, p.Name) && (m.head || !p.Head) {
			out = append(out, p.Name)
		}
	}
	return out
}

// Weights returns the weight matrices as one of tp ranks, at least 1, holds them, in the order of computation;
// equal ones of several layers are merged. wanted selects parts, nil all.
func (m *Model) Weights(tp int, wanted func(part string, engine bool) bool) ([]Weight, error) {
	var out []Weight
	for _, p := range m.parts {
		if p.Head && !m.head || wanted != nil && !wanted(p.Name, p.Engine) {
			continue
		}
		first := len(out)
		layers := max(1, m.Layers)
		if p.Once {
			layers = 1
		}
		for i := range layers {
			w, there, err := m.weight(p, i, tp)
			if err != nil {
				return nil, named(p.Name, err)
			}
			if !there {
				continue
			}
			at := slices.IndexFunc(out[first:], func(o Weight) bool {
				return o.N == w.N && o.K == w.K && o.Experts == w.Experts && o.Active == w.Active
			})
			if at < 0 {
				at = len(out) - first
				out = append(out, w)
			}
			if p.Once || m.Layers > 0 {
				out[first+at].Layers++
			}
		}
	}
	return out, nil
}

func (m *Model) weight(p part, layer, tp int) (w Weight, there bool, err error) {
	s := m.at(layer, tp)
	if p.Where != nil {
		if there, err := p.Where.truth(s); err != nil || !there {
			return w, false, err
		}
	}
	w = Weight{Part: p.Name, Engine: p.Engine, Of: p.Of, Fuses: p.Fuses, PerLayer: !p.Once}
	for _, f := range []struct {
		formula *formula
		to      *int
		most    int
	}{{p.N, &w.N, maxSize}, {p.K, &w.K, maxSize}, {p.Experts, &w.Experts, maxSize}, {p.Active, &w.Active, maxSize}} {
		if f.formula == nil {
			continue
		}
		if *f.to, err = f.formula.integer(s); err != nil {
			return w, false, err
		}
		if *f.to < 1 || *f.to > f.most {
			return w, false, m.outOfRange(f.formula, *f.to, f.most)
		}
	}
	return w, true, nil
}

// outOfRange names the field that makes a formula impossible, if it is one.
func (m *Model) outOfRange(f *formula, value, most int) error {
	for _, name := range m.fieldsOf(f.names(), nil) {
		if n, ok := m.field(name).(int); ok && (n < 1 || n > most) {
			return fmt.Errorf("%s is %d: expected 1 to %d", name, n, most)
		}
	}
	return fmt.Errorf("%s is %d: expected 1 to %d", f.text, value, most)
}

func (m *Model) fieldsOf(names, of []string) []string {
	var out []string
	for _, name := range names {
		f, ok := m.let[name]
		if !ok || slices.Contains(of, name) {
			out = append(out, name)
			continue
		}
		out = append(out, m.fieldsOf(f.names(), append(of, name))...)
	}
	return out
}

// read returns the fields that formulas read.
func (m *Model) read() map[string]bool {
	names := []string{"layers", "vocab"}
	add := func(list ...*formula) {
		for _, f := range list {
			if f != nil {
				names = append(names, f.names()...)
			}
		}
	}
	for _, p := range m.parts {
		add(p.N, p.K, p.Where, p.Experts, p.Active)
	}
	for _, a := range m.heads {
		add(a.Queries, a.KV, a.Dim, a.Values, a.Where)
	}
	for _, r := range m.kind.Refuse {
		add(&r.When)
	}
	out := map[string]bool{}
	for _, name := range m.fieldsOf(names, nil) {
		out[name] = true
	}
	return out
}

// attentions returns the attentions of a layer; those to measure have the common sizes unless they give others.
func (k *kind) attentions() []attention {
	out := slices.Clone(k.Attention)
	if len(out) == 0 {
		out = []attention{{Name: "attention"}}
	}
	for i := range out {
		if a := &out[i]; a.Not == "" {
			a.Queries, a.KV, a.Dim = cmp.Or(a.Queries, field("heads")), cmp.Or(a.KV, field("kv_heads")), cmp.Or(a.Dim, field("head_dim"))
		}
	}
	return out
}

// Attention returns the attentions as one of tp ranks, at least 1, computes them; equal ones of several layers
// are merged.
func (m *Model) Attention(tp int) ([]Attention, error) {
	var out []Attention
	for _, a := range m.heads {
		for i := range max(1, m.Layers) {
			of, there, err := m.attention(a, i, tp)
			if err != nil {
				return nil, named(a.Name, err)
			}
			if !there {
				continue
			}
			at := slices.IndexFunc(out, func(o Attention) bool { o.Layers = 0; return o == of })
			if at < 0 {
				at = len(out)
				out = append(out, of)
			}
			if m.Layers > 0 {
				out[at].Layers++
			}
		}
	}
	return out, nil
}

func (m *Model) attention(a attention, layer, tp int) (out Attention, there bool, err error) {
	s := m.at(layer, tp)
	out = Attention{Name: a.Name, Not: a.Not}
	if a.Where != nil {
		if there, err := a.Where.truth(s); err != nil || !there {
			return out, false, err
		}
	}
	for _, f := range []struct {
		formula *formula
		to      *int
	}{{a.Queries, &out.Heads.Query}, {a.KV, &out.Heads.KV}, {a.Dim, &out.Heads.Dim}, {a.Values, &out.Values}} {
		if f.formula == nil {
			continue
		}
		if *f.to, err = f.formula.integer(s); err != nil {
			return out, false, err
		}
	}
	if out.Values == 0 {
		out.Values = out.Heads.Dim
	}
	if out.Values != out.Heads.Dim && out.Not == "" {
		out.Not = fmt.Sprintf("its keys have %d columns and its values %d", out.Heads.Dim, out.Values)
	}
	if out.Not == "" {
		if err := out.Heads.Validate(); err != nil {
			return out, false, fmt.Errorf("impossible sizes: %w", err)
		}
	}
	return out, true, nil
}

// Vocab is the number of tokens, 0 if the configuration does not give it.
func (m *Model) Vocab() int {
	v, err := m.value("vocab")
	if n, ok := v.(int); ok && err == nil {
		return n
	}
	return 0
}

// Uniform returns nil if all layers have the same matrices, an attention that can be measured, and experts that every token
// passes by a router alone. Its error names the violation.
func (m *Model) Uniform() error {
	weights, err := m.Weights(1, nil)
	if err != nil {
		return err
	}
	for _, w := range weights {
		switch {
		case strings.HasPrefix(w.Part, "shared"):
			return fmt.Errorf("%s are experts that all tokens share", w.Part)
		case !w.PerLayer && w.Part != "lm_head":
			return fmt.Errorf("%s n%d k%d is in no layer", w.Part, w.N, w.K)
		case w.PerLayer && w.Layers != m.Layers:
			return fmt.Errorf("%s n%d k%d is in %d of %d layers", w.Part, w.N, w.K, w.Layers, m.Layers)
		}
	}
	attentions, err := m.Attention(1)
	if err == nil && (len(attentions) != 1 || attentions[0].Not != "") {
		err = errors.New("its layers have several attentions, or an unsupported one")
	}
	return err
}

func (m *Model) check() error {
	for _, r := range m.kind.Refuse {
		if yes, err := r.When.truth(m.value); err != nil || yes {
			return errors.Join(err, errors.New(r.Why))
		}
	}
	layers, err := m.value("layers")
	if err != nil {
		return err
	}
	n, ok := layers.(int)
	if !ok || n < 0 || n > maxLayers || n == 0 && m.field("num_hidden_layers") != nil {
		return fmt.Errorf("num_hidden_layers is %s: expected 1 to %d", brief(layers), maxLayers)
	}
	m.Layers = n
	if _, err := m.Weights(1, nil); err != nil {
		return err
	}
	if _, err := m.Attention(1); err != nil {
		return err
	}
	return nil
}

// agrees checks that an object around the language model has no other value of a field that formulas read.
func (m *Model) agrees(object map[string]any, in string) error {
	read := m.read()
	for _, name := range slices.Sorted(maps.Keys(read)) {
		outer, inner := object[name], m.fields[name]
		if outer != nil && inner != nil && brief(outer) != brief(inner) {
			return fmt.Errorf("%s is %s, and %s.%s is %s", name, brief(outer), in, name, brief(inner))
		}
	}
	return nil
}

// unread finds a field of object that may change a shape and that no formula reads.
func (m *Model) unread(t *table, object map[string]any, harmless []string, elsewhere map[string]string) error {
	read := m.read()
	for _, name := range slices.Sorted(maps.Keys(object)) {
		value := object[name]
		if read[name] || !counts(value) || slices.Contains(t.Harmless, name) || slices.Contains(harmless, name) {
			continue
		}
		word := cmp.Or(elsewhere[name], t.Elsewhere[name])
		if word == "" {
			return &unknownField{name, brief(value), m.Type}
		}
		if n, ok := value.(int); (!ok || n != 0) && !slices.Contains(m.Elsewhere, word) {
			m.Elsewhere = append(m.Elsewhere, word)
		}
	}
	return nil
}

type unknownField struct{ name, value, modelType string }

func (e *unknownField) Error() string {
	return fmt.Sprintf("unknown field %s with value %s in a model of type %s: it may change the shapes", e.name, e.value, e.modelType)
}
