package rules

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

const maxConfigBytes = 1 << 20

// LoadConfig reads a rules file over the built-in one; an empty path returns the built-in one. Errors name
// the file, the line and the expected value.
func LoadConfig(path string) (Config, error) {
	if path == "" {
		return Default(), nil
	}
	f, err := regular.Open(path)
	if err != nil {
		return Config{}, fmt.Errorf("read rules file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return Config{}, fmt.Errorf("read rules file: %w", err)
	}
	if len(text) > maxConfigBytes {
		return Config{}, &ConfigError{File: path, Text: fmt.Sprintf("more than %d bytes, expected a rules file", maxConfigBytes)}
	}
	return ParseConfig(path, text)
}

// ConfigError is a fault in a rules file.
type ConfigError struct {
	File string
	Line int // 0 if the fault has no single line
	Text string
}

func (e *ConfigError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
	}
	return fmt.Sprintf("%s: %s", e.File, e.Text)
}

// ParseConfig reads the text of a rules file over the built-in one. name appears in errors, which are of type
// [*ConfigError].
func ParseConfig(name string, text []byte) (Config, error) {
	c := Default()
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, yamlError(name, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Config{}, &ConfigError{File: name, Text: "more than one YAML document, expected one"}
	}
	var doc yaml.Node
	if yaml.Unmarshal(text, &doc) == nil {
		if key, n := fraction(&doc); n != nil {
			return Config{}, &ConfigError{File: name, Line: n.Line, Text: fmt.Sprintf("%s is %s, expected a whole number", key, n.Value)}
		}
	}
	if err := c.Validate(); err != nil {
		line := 0
		var bad *fieldError
		if errors.As(err, &bad) {
			line = lineOf(text, bad.path)
		}
		return Config{}, &ConfigError{File: name, Line: line, Text: err.Error()}
	}
	return c, nil
}

var (
	yamlLine     = regexp.MustCompile(`^(?:yaml: )?(?:unmarshal errors:\s*)?line (\d+): (.*)$`)
	unknownField = regexp.MustCompile(`^field (\S+) not found in type (\S+)$`)
)

// yamlError reduces the decoder's error, which may have several lines, to the first line at fault, in terms
// of keys instead of Go types.
func yamlError(name string, err error) error {
	message := err.Error()
	var several *yaml.TypeError
	if errors.As(err, &several) && len(several.Errors) > 0 {
		message = several.Errors[0]
	}
	message = strings.ReplaceAll(message, "\n", " ")
	found := yamlLine.FindStringSubmatch(message)
	if found == nil {
		return &ConfigError{File: name, Text: strings.TrimPrefix(message, "yaml: ")}
	}
	line, _ := strconv.Atoi(found[1])
	fault := found[2]
	if key := unknownField.FindStringSubmatch(fault); key != nil {
		fault = fmt.Sprintf("unknown key %q", key[1])
		if keys := keysOf(key[2]); len(keys) > 0 {
			fault += ": expected one of " + strings.Join(keys, ", ")
		}
	}
	return &ConfigError{File: name, Line: line, Text: fault}
}

// countKeys are the keys whose values are whole numbers.
var countKeys = []string{"min_samples", "rounds", "max_rounds", "max_cases", "max_parts", "n", "k"}

// fraction finds a count that is not whole; the decoder would truncate 0.5 to 0.
func fraction(node *yaml.Node) (key string, value *yaml.Node) {
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 1 && slices.Contains(countKeys, node.Content[i-1].Value) &&
			child.ShortTag() == "!!float" {
			if x, err := strconv.ParseFloat(child.Value, 64); err != nil || x != math.Trunc(x) {
				return node.Content[i-1].Value, child
			}
		}
		if key, value := fraction(child); value != nil {
			return key, value
		}
	}
	return "", nil
}

// fieldError is a value out of its range; path is its place in the file.
type fieldError struct {
	path []string
	text string
}

func (e *fieldError) Error() string { return strings.Join(e.path, ".") + e.text }

// lineOf finds the line of a value in a YAML document, 0 if it is absent. Elements of lists are addressed by
// their number.
func lineOf(text []byte, path []string) int {
	var doc yaml.Node
	if yaml.Unmarshal(text, &doc) != nil || len(doc.Content) == 0 {
		return 0
	}
	node := doc.Content[0]
	for _, key := range path {
		var next *yaml.Node
		switch node.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(node.Content); i += 2 {
				if node.Content[i].Value == key {
					next = node.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(key); err == nil && i < len(node.Content) {
				next = node.Content[i]
			}
		}
		if next == nil {
			return 0
		}
		node = next
	}
	return node.Line
}

func (c Config) checkAlong() error {
	if !slices.Contains(infer.AlongNames(), c.Along) {
		return &fieldError{[]string{"along"}, fmt.Sprintf(" is %q, expected one of %s", c.Along, strings.Join(infer.AlongNames(), ", "))}
	}
	if c.Method == MethodArticle && c.Along != infer.AlongAuto && c.Along != infer.AlongM {
		return &fieldError{[]string{"along"}, fmt.Sprintf(" is %q, expected m: the article compares sizes along M only", c.Along)}
	}
	return nil
}
