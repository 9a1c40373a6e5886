package rules

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// ConfigSchema is the value of the key schema in a rules file.
const ConfigSchema = "gemmaudit.rules/1"

// The methods of judging rows.
const (
	// MethodInterval judges by confidence bounds and adjusted p-values.
	MethodInterval = "interval"
	// MethodArticle is the published rule on point estimates.
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
	// Along is the dimension that curves run along, of [infer.AlongNames].
	Along string `yaml:"along"`
	// Threshold is the share of the reference's MFU below which a row is
	// anomalous, in (0, 1].
	Threshold float64 `yaml:"threshold"`
	// FDR is the false discovery rate of each rule, in (0, 1).
	FDR float64 `yaml:"fdr"`
	// Confidence is the level of printed intervals, in (0, 1).
	Confidence float64 `yaml:"confidence"`
	// ClockMHz is the common clock for judging rows, 100 to 10000 MHz, or 0 for the run's own.
	ClockMHz float64 `yaml:"clock_mhz"`
	// MinSamples is the least number of samples of a row that is judged.
	MinSamples int `yaml:"min_samples"`
	// DriftBound is the limit of a run's resolution, and of the sentinels' drift, as a share of the time. A
	// run beyond it is not judged.
	DriftBound float64       `yaml:"drift_bound"`
	Confirm    ConfirmConfig `yaml:"confirm"`
	Remedy     RemedyConfig  `yaml:"remedy"`
	Rules      RuleSet       `yaml:"rules"`
	Diff       DiffConfig    `yaml:"diff"`
	Cards      CardsConfig   `yaml:"cards"`
	Waivers    []Waiver      `yaml:"waivers"`

	// Today is the date for checking waivers, as YYYY-MM-DD; empty means the system clock's.
	Today string `yaml:"-"`
}

// ConfirmConfig says how suspects are measured again.
type ConfirmConfig struct {
	Rounds    int `yaml:"rounds"`
	MaxRounds int `yaml:"max_rounds"`
	MaxCases  int `yaml:"max_cases"`
}

// RemedyConfig says how much a remedy must gain, and the budget for finding it.
type RemedyConfig struct {
	Margin float64 `yaml:"margin"`
	// Slower is by how much longer than in the run a product may take during remedy measurements. Above it
	// other work disturbs the machine, which may slow the product more than the remedy, so the result is
	// discarded.
	Slower    float64 `yaml:"slower"`
	Rounds    int     `yaml:"rounds"`
	MaxRounds int     `yaml:"max_rounds"`
	MaxParts  int     `yaml:"max_parts"`
	MaxCases  int     `yaml:"max_cases"`
}

// DiffConfig is the gate of a comparison of two runs: the largest accepted slowdowns of a case, a stretch of
// neighboring M, and a whole series, as shares.
type DiffConfig struct {
	Threshold float64 `yaml:"threshold"`
	Stretch   float64 `yaml:"stretch"`
	Series    float64 `yaml:"series"`
	// DespiteDisturbance compares times even if one run was disturbed more than the other.
	DespiteDisturbance bool `yaml:"-" json:"-"`
}

// CardsConfig is the gate of a comparison of the cards of one host.
type CardsConfig struct {
	Threshold float64 `yaml:"threshold"`
}

// Basis is the part of the rules file that estimates depend on.
func (c Config) Basis() infer.Basis {
	b := infer.Basis{ClockMHz: c.ClockMHz, Confidence: c.Confidence, DriftBound: c.DriftBound, Along: c.Along, MinSamples: c.MinSamples}
	if c.Method == MethodArticle {
		b.Along = infer.AlongM
	}
	return b
}

// DefaultText returns the built-in rules file with its comments.
func DefaultText() []byte { return slices.Clone(defaultConfig) }

// Default returns the built-in configuration.
func Default() Config {
	var c Config
	if err := yaml.Unmarshal(defaultConfig, &c); err != nil {
		// Unreachable: the file is embedded and a test parses it.
		return Config{}
	}
	return c
}

// Validate returns an error that names the first value out of range.
func (c Config) Validate() error {
	if c.Schema != ConfigSchema {
		return &fieldError{[]string{"schema"}, fmt.Sprintf(" is %q, expected %q", c.Schema, ConfigSchema)}
	}
	if c.Method != MethodInterval && c.Method != MethodArticle {
		return &fieldError{[]string{"method"}, fmt.Sprintf(" is %q, expected interval or article", c.Method)}
	}
	if err := c.checkAlong(); err != nil {
		return err
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

// Encode writes the configuration, except Today, as a rules file that [ParseConfig] reads.
func (c Config) Encode() ([]byte, error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write rules file: %w", err)
	}
	return text, nil
}
