package rules

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gemmaudit/gemmaudit/kernels"
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

// DefaultConfigYAML returns the built-in rules file, comments included, for a
// user who wants to start from it.
func DefaultConfigYAML() string { return string(defaultConfig) }

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

// RuleSet switches rules and holds their bounds.
type RuleSet struct {
	Monotonic   MonotonicConfig   `yaml:"monotonic"`
	Split       MarginConfig      `yaml:"split"`
	Pad         MarginConfig      `yaml:"pad"`
	Parity      ParityConfig      `yaml:"parity"`
	Alternative AlternativeConfig `yaml:"alternative"`
	Roofline    RooflineConfig    `yaml:"roofline"`
}

// MonotonicConfig switches the monotonic rule; its bound is Config.Threshold.
type MonotonicConfig struct {
	Enabled bool `yaml:"enabled"`
}

// MarginConfig is a rule with a gain, as a share, that it must find.
type MarginConfig struct {
	Enabled bool    `yaml:"enabled"`
	Margin  float64 `yaml:"margin"`
}

// ParityConfig lists which data type is expected to keep up with which.
type ParityConfig struct {
	Enabled bool         `yaml:"enabled"`
	Pairs   []ParityPair `yaml:"pairs"`
}

// ParityPair says that DType may take at most Ratio times the time of Than.
type ParityPair struct {
	DType kernels.DType `yaml:"dtype"`
	Than  kernels.DType `yaml:"than"`
	Ratio float64       `yaml:"ratio"`
}

// AlternativeConfig is the margin by which another kernel must be faster.
type AlternativeConfig struct {
	Enabled bool    `yaml:"enabled"`
	Margin  float64 `yaml:"margin"`
	// Exclude names kernels that are not judged; they still serve as alternatives.
	Exclude []string `yaml:"exclude"`
}

// RooflineConfig bounds MFU from both sides.
type RooflineConfig struct {
	Enabled bool `yaml:"enabled"`
	// Fraction of the attainable rate below which a row is anomalous.
	Fraction float64 `yaml:"fraction"`
	// Tolerance above a ceiling past which the measurement is in error.
	Tolerance float64 `yaml:"tolerance"`
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

// Validate returns an error that names the first value out of its range.
func (c Config) Validate() error {
	if c.Schema != ConfigSchema {
		return &fieldError{[]string{"schema"}, fmt.Sprintf(" is %q, expected %q", c.Schema, ConfigSchema)}
	}
	if c.Method != MethodInterval && c.Method != MethodArticle {
		return &fieldError{[]string{"method"}, fmt.Sprintf(" is %q, expected interval or article", c.Method)}
	}
	for _, f := range []struct {
		path   string
		v      float64
		lo, hi float64 // open at both ends unless closed says so
		closed bool
	}{
		{"threshold", c.Threshold, 0, 1, true},
		{"fdr", c.FDR, 0, 1, false},
		{"confidence", c.Confidence, 0, 1, false},
		{"drift_bound", c.DriftBound, 0, 10, true},
		{"remedy.margin", c.Remedy.Margin, -1e-300, 10, true},
		{"remedy.slower", c.Remedy.Slower, 0, 10, true},
		{"rules.split.margin", c.Rules.Split.Margin, -1e-300, 10, true},
		{"rules.pad.margin", c.Rules.Pad.Margin, -1e-300, 10, true},
		{"rules.alternative.margin", c.Rules.Alternative.Margin, -1e-300, 10, true},
		{"rules.roofline.fraction", c.Rules.Roofline.Fraction, 0, 1, true},
		{"rules.roofline.tolerance", c.Rules.Roofline.Tolerance, -1e-300, 10, true},
		{"diff.threshold", c.Diff.Threshold, -1e-300, 10, true},
		{"diff.stretch", c.Diff.Stretch, -1e-300, 10, true},
		{"diff.series", c.Diff.Series, -1e-300, 10, true},
		{"cards.threshold", c.Cards.Threshold, -1e-300, 10, true},
	} {
		if !(f.v > f.lo && (f.v < f.hi || f.closed && f.v == f.hi)) { // also catches NaN
			lo := max(f.lo, 0)
			open := "above"
			if f.lo < 0 {
				open = "at least"
			}
			shut := "below"
			if f.closed {
				shut = "at most"
			}
			return &fieldError{strings.Split(f.path, "."), fmt.Sprintf(" is %v, expected %s %v and %s %v", f.v, open, lo, shut, f.hi)}
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
	for i, p := range c.Rules.Parity.Pairs {
		at := []string{"rules", "parity", "pairs", strconv.Itoa(i)}
		for _, d := range []struct {
			key string
			v   kernels.DType
		}{{"dtype", p.DType}, {"than", p.Than}} {
			if !slices.Contains(kernels.DTypes(), d.v) {
				return &fieldError{append(at, d.key), fmt.Sprintf(" is %q, expected one of fp32, tf32, fp16, bf16, fp8, int8", d.v)}
			}
		}
		if p.DType == p.Than {
			return &fieldError{append(at, "than"), fmt.Sprintf(" is %s, the same as dtype", p.Than)}
		}
		if !(p.Ratio > 0 && p.Ratio <= 100) {
			return &fieldError{append(at, "ratio"), fmt.Sprintf(" is %v, expected above 0 and at most 100", p.Ratio)}
		}
	}
	for i, w := range c.Waivers {
		if err := w.validate(); err != nil {
			return &fieldError{[]string{"waivers", strconv.Itoa(i)}, ": " + err.Error()}
		}
	}
	return nil
}

// ParseRule reads a rule by name. The error lists what was expected.
func ParseRule(s string) (Rule, error) {
	if r := Rule(s); slices.Contains(AllRules(), r) {
		return r, nil
	}
	return "", fmt.Errorf("unknown rule %q: expected one of monotonic, split, pad, parity, alternative, roofline", s)
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

// Only returns c with the given rules switched on and all others off.
func (c Config) Only(on ...Rule) Config {
	c.Rules.Monotonic.Enabled = slices.Contains(on, Monotonic)
	c.Rules.Split.Enabled = slices.Contains(on, SplitRule)
	c.Rules.Pad.Enabled = slices.Contains(on, Pad)
	c.Rules.Parity.Enabled = slices.Contains(on, Parity)
	c.Rules.Alternative.Enabled = slices.Contains(on, Alternative)
	c.Rules.Roofline.Enabled = slices.Contains(on, Roofline)
	return c
}
