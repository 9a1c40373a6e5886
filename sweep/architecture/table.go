package architecture

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed architectures.yaml
var tableText []byte

// table is what architectures.yaml holds; its head describes the fields.
type table struct {
	Split     map[string]string   `yaml:"split"`
	Let       map[string]string   `yaml:"let"`
	Required  map[string][]string `yaml:"required"`
	Harmless  []string            `yaml:"harmless"`
	Elsewhere map[string]string   `yaml:"elsewhere"`
	Groups    map[string][]part   `yaml:"groups"`
	Kinds     []*kind             `yaml:"kinds"`
}

// kind is an architecture, or several whose weight matrices have the same formulas.
type kind struct {
	// Types are values of model_type, each with the classes of models that have a language modelling
	// head, separated by blanks.
	Types     map[string]string `yaml:"types"`
	ByClass   bool              `yaml:"by_class"`
	Text      []string          `yaml:"text"`
	TextType  string            `yaml:"text_type"`
	Let       map[string]string `yaml:"let"`
	Defaults  map[string]any    `yaml:"defaults"`
	Parts     []entry           `yaml:"parts"`
	Attention []attention       `yaml:"attention"`
	Harmless  []string          `yaml:"harmless"`
	Elsewhere map[string]string `yaml:"elsewhere"`
	Refuse    []refusal         `yaml:"refuse"`
}

// entry is a part, or the name of a group of parts.
type entry struct {
	group string
	part  part
}

// UnmarshalYAML reads a name, or the fields of a part.
func (e *entry) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		return node.Decode(&e.group)
	}
	return node.Decode(&e.part)
}

// part is a weight matrix.
type part struct {
	Name    string   `yaml:"part"`
	N       string   `yaml:"n"`
	K       string   `yaml:"k"`
	Of      string   `yaml:"of"`
	Fuses   []string `yaml:"fuses"`
	Where   string   `yaml:"where"`
	Once    bool     `yaml:"once"`
	Engine  bool     `yaml:"engine"`
	Head    bool     `yaml:"head"`
	Experts string   `yaml:"experts"`
	Active  string   `yaml:"active"`
}

// attention is an attention of some layers.
type attention struct {
	Name    string `yaml:"attention"`
	Queries string `yaml:"queries"`
	KV      string `yaml:"kv"`
	Dim     string `yaml:"dim"`
	Values  string `yaml:"values"` // columns of a value where they are not those of a key
	Where   string `yaml:"where"`
	Not     string `yaml:"not_measured"`
}

// refusal is a condition under which an entry's formulas do not hold.
type refusal struct {
	When string `yaml:"when"`
	Why  string `yaml:"why"`
}

// known is the table, read once. Its error is one of architectures.yaml, which a test reads.
var known = sync.OnceValues(func() (*table, error) { return readTable(tableText) })

func readTable(data []byte) (*table, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	t := &table{}
	if err := d.Decode(t); err != nil {
		return nil, fmt.Errorf("table of architectures: %w", err)
	}
	for _, k := range t.Kinds {
		for _, e := range k.Parts {
			if e.group != "" && t.Groups[e.group] == nil {
				return nil, fmt.Errorf("table of architectures: %s has parts %q, and there is no such group", slices.Sorted(maps.Keys(k.Types))[0], e.group)
			}
		}
		for name, value := range k.Defaults {
			k.Defaults[name] = numbers(value)
		}
	}
	return t, nil
}

// numbers makes lists of YAML lists of any.
func numbers(v any) any {
	if list, ok := v.([]any); ok {
		out := make([]any, len(list))
		for i, e := range list {
			out[i] = numbers(e)
		}
		return out
	}
	return v
}

// parts are those of a kind, in the order in which a token meets them.
func (t *table) parts(k *kind) []part {
	var out []part
	for _, e := range k.Parts {
		if e.group != "" {
			out = append(out, t.Groups[e.group]...)
			continue
		}
		out = append(out, e.part)
	}
	return out
}

// find is the kind of a model_type and its classes, and whether the model has a language modelling
// head. Several kinds share a type; without a class it is the first that takes it.
func (t *table) find(modelType string, classes []string) (of *kind, head bool, err error) {
	var kinds []*kind
	for _, k := range t.Kinds {
		if _, ok := k.Types[modelType]; ok {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return nil, false, &unknownKind{fmt.Sprintf("model_type is %q, which is no known architecture", modelType)}
	}
	if len(classes) == 0 {
		if i := slices.IndexFunc(kinds, func(k *kind) bool { return !k.ByClass }); i >= 0 {
			return kinds[i], true, nil
		}
		return nil, false, missing{"architectures"}
	}
	var expected []string
	for _, k := range kinds {
		heads := strings.Fields(k.Types[modelType])
		if all(classes, func(c string) bool { return slices.Contains(heads, c) }) {
			return k, true, nil
		}
		if all(classes, func(c string) bool { return slices.Contains(heads, causal(c)) }) {
			return k, false, nil
		}
		expected = append(expected, heads...)
	}
	return nil, false, &unknownKind{fmt.Sprintf("architectures is %q, which is no known architecture of model_type %s: expected %s",
		strings.Join(classes, ", "), modelType, strings.Join(expected, ", "))}
}

// unknownKind says that the table has no such architecture.
type unknownKind struct{ text string }

func (e *unknownKind) Error() string { return e.text }

func all[T any](list []T, is func(T) bool) bool {
	return !slices.ContainsFunc(list, func(v T) bool { return !is(v) })
}

// causal is the class with a language modelling head of a class without one, else "".
func causal(class string) string {
	for _, end := range []string{"ForSequenceClassification", "ForTokenClassification", "Model"} {
		if name, ok := strings.CutSuffix(class, end); ok {
			return name + "ForCausalLM"
		}
	}
	return ""
}

// Types lists the values of model_type that are known, sorted.
func Types() ([]string, error) {
	t, err := known()
	if err != nil {
		return nil, err
	}
	set := map[string]bool{}
	for _, k := range t.Kinds {
		for name := range k.Types {
			set[name] = true
		}
	}
	return slices.Sorted(maps.Keys(set)), nil
}
