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

// table is the content of architectures.yaml, whose header describes the fields.
type table struct {
	Split     map[string]string   `yaml:"split"`
	Let       map[string]formula  `yaml:"let"`
	Required  map[string][]string `yaml:"required"`
	Harmless  []string            `yaml:"harmless"`
	Epilogues []layerEpilogues    `yaml:"epilogues"`
	Elsewhere map[string]string   `yaml:"elsewhere"`
	Groups    map[string][]part   `yaml:"groups"`
	Kinds     []*kind             `yaml:"kinds"`
}

type kind struct {
	// Types maps values of model_type to the classes of models with a language modeling head, separated by
	// blanks.
	Types     map[string]string  `yaml:"types"`
	ByClass   bool               `yaml:"by_class"`
	Text      []string           `yaml:"text"`
	TextType  string             `yaml:"text_type"`
	Let       map[string]formula `yaml:"let"`
	Defaults  map[string]any     `yaml:"defaults"`
	Parts     []entry            `yaml:"parts"`
	Attention []attention        `yaml:"attention"`
	Harmless  []string           `yaml:"harmless"`
	Elsewhere map[string]string  `yaml:"elsewhere"`
	Refuse    []refusal          `yaml:"refuse"`
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

type part struct {
	Name    string   `yaml:"part"`
	N       *formula `yaml:"n"`
	K       *formula `yaml:"k"`
	Of      string   `yaml:"of"`
	Fuses   []string `yaml:"fuses"`
	Where   *formula `yaml:"where"`
	Once    bool     `yaml:"once"`
	Engine  bool     `yaml:"engine"`
	Head    bool     `yaml:"head"`
	Experts *formula `yaml:"experts"`
	Active  *formula `yaml:"active"`
}

type attention struct {
	Name    string   `yaml:"attention"`
	Queries *formula `yaml:"queries"`
	KV      *formula `yaml:"kv"`
	Dim     *formula `yaml:"dim"`
	Values  *formula `yaml:"values"` // columns of a value if they differ from a key's
	Where   *formula `yaml:"where"`
	Not     string   `yaml:"not_measured"`
}

type refusal struct {
	When formula `yaml:"when"`
	Why  string  `yaml:"why"`
}

// known is the table, read once. A test covers its error.
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
				return nil, fmt.Errorf("table of architectures: %s has parts %q, and there is no such group",
					slices.Sorted(maps.Keys(k.Types))[0], e.group)
			}
		}
	}
	return t, nil
}

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

// find also reports whether the model has a language modeling head. Several kinds share a type; without a
// class the first one counts.
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

type unknownKind struct{ text string }

func (e *unknownKind) Error() string { return e.text }

func all[T any](list []T, is func(T) bool) bool {
	return !slices.ContainsFunc(list, func(v T) bool { return !is(v) })
}

// causal is the class with a language modeling head for a class without one, or "".
func causal(class string) string {
	for _, end := range []string{"ForSequenceClassification", "ForTokenClassification", "Model"} {
		if name, ok := strings.CutSuffix(class, end); ok {
			return name + "ForCausalLM"
		}
	}
	return ""
}
