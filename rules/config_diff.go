package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ConfigChange is a key of the rules file whose value differs; a side without the key is empty.
type ConfigChange struct {
	Key string `json:"key"` // "rules.split.margin"; a waiver is one key, "waivers.0"
	A   string `json:"a"`
	B   string `json:"b"`
}

// CompareConfigs lists the keys with different values in two configurations, in the order of the rules file.
// A list is one value, but each waiver is compared separately.
func CompareConfigs(a, b Config) ([]ConfigChange, error) {
	var keys []string
	var values [2]map[string]string
	for i, c := range []Config{a, b} {
		text, err := c.Encode()
		if err != nil {
			return nil, err
		}
		var doc yaml.Node
		if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
			return nil, fmt.Errorf("compare rules files: %w", err)
		}
		values[i] = map[string]string{}
		if err := leaves(doc.Content[0], "", func(key, value string) {
			values[i][key] = value
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}); err != nil {
			return nil, err
		}
	}
	var changes []ConfigChange
	for _, k := range keys {
		if x, y := values[0][k], values[1][k]; x != y {
			changes = append(changes, ConfigChange{k, x, y})
		}
	}
	return changes, nil
}

func leaves(node *yaml.Node, path string, found func(key, value string)) error {
	switch {
	case node.Kind == yaml.MappingNode && !strings.HasPrefix(path, "waivers."):
		for i := 0; i+1 < len(node.Content); i += 2 {
			if err := leaves(node.Content[i+1], strings.TrimPrefix(path+"."+node.Content[i].Value, "."), found); err != nil {
				return err
			}
		}
		return nil
	case path == "waivers":
		for i, w := range node.Content {
			if err := leaves(w, path+"."+strconv.Itoa(i), found); err != nil {
				return err
			}
		}
		return nil
	case node.Kind == yaml.ScalarNode:
		found(path, node.Value)
		return nil
	}
	flow(node)
	text, err := yaml.Marshal(node)
	if err != nil {
		return fmt.Errorf("compare rules files: %s: %w", path, err)
	}
	found(path, strings.Join(strings.Fields(string(text)), " "))
	return nil
}

func flow(node *yaml.Node) {
	node.Style = yaml.FlowStyle
	for _, n := range node.Content {
		if n.Kind != yaml.ScalarNode {
			flow(n)
		}
	}
}

func keysOf(typeName string) []string {
	var find func(t reflect.Type) []string
	find = func(t reflect.Type) []string {
		for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return nil
		}
		var keys, below []string
		for i := range t.NumField() {
			f := t.Field(i)
			if key, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); key != "" && key != "-" {
				keys = append(keys, key)
			}
			if below == nil && f.IsExported() {
				below = find(f.Type)
			}
		}
		if t.String() == typeName {
			return keys
		}
		return below
	}
	return find(reflect.TypeFor[Config]())
}
