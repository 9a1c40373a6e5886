package rules

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ConfigSchema is the value of the key schema in a rules file.
const ConfigSchema = "gemmaudit.rules/1"

// The methods by which rows are judged.
const (
	// MethodInterval judges by confidence bounds and adjusted p-values.
	MethodInterval = "interval"
	// MethodArticle is the published plain rule on point estimates.
	MethodArticle = "article"
)

//go:embed default.yaml
var defaultConfig []byte

// Config is a rules file. The package comment specifies the language; fields
// are named after their keys.
type Config struct {
	Schema string `yaml:"schema"`
	// Method is MethodInterval or MethodArticle.
	Method string `yaml:"method"`
	// Threshold is the share of the reference's MFU below which a row is
	// anomalous, in (0, 1].
	Threshold float64 `yaml:"threshold"`
	// FDR is the false discovery rate of each rule, in (0, 1).
	FDR float64 `yaml:"fdr"`
	// Confidence is the level of printed intervals, in (0, 1).
	Confidence float64 `yaml:"confidence"`
	// ClockMHz is the clock at which rows are judged, 0 for the run's own or 100 to
	// 10000 MHz.
	ClockMHz float64 `yaml:"clock_mhz"`
	// MinSamples is the least number of samples of a row that is judged.
	MinSamples int `yaml:"min_samples"`
	// DriftBound is the drift of the sentinels, as a share of the time, past
	// which a run is invalid.
	DriftBound float64       `yaml:"drift_bound"`
	Confirm    ConfirmConfig `yaml:"confirm"`
	Remedy     RemedyConfig  `yaml:"remedy"`
	Rules      RuleSet       `yaml:"rules"`
	Diff       DiffConfig    `yaml:"diff"`
	Cards      CardsConfig   `yaml:"cards"`
	Waivers    []Waiver      `yaml:"waivers"`

	// Today is the day on which waivers are looked at, as YYYY-MM-DD; empty
	// means the clock's.
	Today string `yaml:"-"`
}

// ConfirmConfig says how suspects are measured again.
type ConfirmConfig struct {
	Rounds    int `yaml:"rounds"`
	MaxRounds int `yaml:"max_rounds"`
	MaxCases  int `yaml:"max_cases"`
}

// RemedyConfig says what a remedy must gain and how much is spent on it.
type RemedyConfig struct {
	Margin float64 `yaml:"margin"`
	// Slower is by how much more than in the run a product may take beside its remedies.
	// Beyond, other work slows it, from which a remedy may suffer less without being any
	// better: nothing is concluded.
	Slower    float64 `yaml:"slower"`
	Rounds    int     `yaml:"rounds"`
	MaxRounds int     `yaml:"max_rounds"`
	MaxParts  int     `yaml:"max_parts"`
	MaxCases  int     `yaml:"max_cases"`
}

// DiffConfig is what a comparison of two runs is gated on: the shares by which a case, a
// stretch of neighbouring M, and a whole series may become slower.
type DiffConfig struct {
	Threshold float64 `yaml:"threshold"`
	Stretch   float64 `yaml:"stretch"`
	Series    float64 `yaml:"series"`
}

// CardsConfig is what a comparison of the cards of one host is gated on.
type CardsConfig struct {
	Threshold float64 `yaml:"threshold"`
}

// Default returns the built-in configuration.
func Default() Config {
	var c Config
	if err := yaml.Unmarshal(defaultConfig, &c); err != nil {
		// The file is embedded and a test parses it: this can't be reached by input.
		return Config{}
	}
	return c
}

// maxConfigBytes is the longest rules file that is read: thousands of waivers.
const maxConfigBytes = 1 << 20

// LoadConfig reads a rules file over the built-in one; the empty path is the
// built-in one alone. Errors name the file, the line and what was expected.
func LoadConfig(path string) (Config, error) {
	if path == "" {
		return Default(), nil
	}
	f, err := os.Open(path)
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
	Line int // 0 when the fault has no single line
	Text string
}

func (e *ConfigError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
	}
	return fmt.Sprintf("%s: %s", e.File, e.Text)
}

// ParseConfig reads the text of a rules file over the built-in one. name is
// for errors, which are of type [*ConfigError].
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
	unknownField = regexp.MustCompile(`^field (\S+) not found in type \S+$`)
)

// yamlError turns the decoder's error, which may hold several lines, into one
// that names the first line at fault and speaks of keys instead of Go types.
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
	}
	return &ConfigError{File: name, Line: line, Text: fault}
}

// countKeys are the keys whose values are whole numbers.
var countKeys = []string{"min_samples", "rounds", "max_rounds", "max_cases", "max_parts", "n", "k"}

// fraction finds a count that is none, which the decoder would cut: half a case to none.
func fraction(node *yaml.Node) (key string, value *yaml.Node) {
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 1 && slices.Contains(countKeys, node.Content[i-1].Value) && child.ShortTag() == "!!float" {
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

// fieldError is a value out of its range; path is where it stands in the file.
type fieldError struct {
	path []string
	text string
}

func (e *fieldError) Error() string { return strings.Join(e.path, ".") + e.text }

// lineOf finds the line of a value in a YAML document; 0 when the document does
// not mention it. Elements of lists are addressed by their number.
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

// Validate returns an error that names the first value out of its range.
func (c Config) Validate() error {
	if c.Schema != ConfigSchema {
		return &fieldError{[]string{"schema"}, fmt.Sprintf(" is %q, expected %q", c.Schema, ConfigSchema)}
	}
	if c.Method != MethodInterval && c.Method != MethodArticle {
		return &fieldError{[]string{"method"}, fmt.Sprintf(" is %q, expected interval or article", c.Method)}
	}
	for _, f := range []struct {
		path string
		v    float64
		in   span
	}{
		{"threshold", c.Threshold, above(0, 1)},
		{"fdr", c.FDR, between(0, 1)},
		{"confidence", c.Confidence, between(0, 1)},
		{"drift_bound", c.DriftBound, above(0, 10)},
		{"remedy.margin", c.Remedy.Margin, closed(0, 10)},
		{"remedy.slower", c.Remedy.Slower, above(0, 10)},
		{"diff.threshold", c.Diff.Threshold, closed(0, 10)},
		{"diff.stretch", c.Diff.Stretch, closed(0, 10)},
		{"diff.series", c.Diff.Series, closed(0, 10)},
		{"cards.threshold", c.Cards.Threshold, closed(0, 10)},
	} {
		if err := f.in.check(strings.Split(f.path, "."), f.v); err != nil {
			return err
		}
	}
	for _, r := range ruleTable {
		for _, s := range r.settings {
			if s.check == nil {
				continue
			}
			if err := s.check([]string{"rules", string(r.name), s.key}, c); err != nil {
				return err
			}
		}
	}
	if mhz := c.ClockMHz; mhz != 0 && !(mhz >= 100 && mhz <= 10000) {
		return &fieldError{[]string{"clock_mhz"}, fmt.Sprintf(" is %v, expected 0 for the run's own or 100 to 10000", mhz)}
	}
	for _, f := range []struct {
		path      string
		v, lo, hi int
	}{
		{"min_samples", c.MinSamples, 2, 10000},
		{"confirm.rounds", c.Confirm.Rounds, 6, 1000},
		{"confirm.max_rounds", c.Confirm.MaxRounds, c.Confirm.Rounds, 1000},
		{"confirm.max_cases", c.Confirm.MaxCases, 0, 1000000},
		{"remedy.rounds", c.Remedy.Rounds, 6, 1000},
		{"remedy.max_rounds", c.Remedy.MaxRounds, c.Remedy.Rounds, 1000},
		{"remedy.max_parts", c.Remedy.MaxParts, 2, 16},
		{"remedy.max_cases", c.Remedy.MaxCases, 0, 1000000},
	} {
		if f.v < f.lo || f.v > f.hi {
			return &fieldError{strings.Split(f.path, "."), fmt.Sprintf(" is %d, expected %d to %d", f.v, f.lo, f.hi)}
		}
	}
	for i, w := range c.Waivers {
		if err := w.validate(); err != nil {
			return &fieldError{[]string{"waivers", strconv.Itoa(i)}, ": " + err.Error()}
		}
	}
	return nil
}

// Encode writes the configuration as a rules file that [ParseConfig] reads. Today
// is not part of it.
func (c Config) Encode() ([]byte, error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write rules file: %w", err)
	}
	return text, nil
}
