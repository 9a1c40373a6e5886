package rules

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Parity is the rule that one data type keeps up with another, and quantised weights with plain
// ones.
const Parity Rule = "parity"

// ParityConfig lists which data type is expected to keep up with which.
type ParityConfig struct {
	Enabled bool         `yaml:"enabled"`
	Pairs   []ParityPair `yaml:"pairs"`
	// Quantised is how many times the time of plain weights quantised ones may take.
	Quantised float64 `yaml:"quantised"`
	// Dequantising names kernels that are not judged so, since they multiply by the plain elements
	// that quantised weights stand for.
	Dequantising []string `yaml:"dequantising"`
}

// ParityPair says that DType may take at most Ratio times the time of Than.
type ParityPair struct {
	DType kernels.DType `yaml:"dtype"`
	Than  kernels.DType `yaml:"than"`
	Ratio float64       `yaml:"ratio"`
}

// String is how documentation and kept proof word the pair: "int8 than bf16 1".
func (p ParityPair) String() string {
	return fmt.Sprintf("%s than %s %s", p.DType, p.Than, plain(p.Ratio))
}

var parityRule = rule{
	name:    Parity,
	meaning: "one data type, or quantised weights, are slower than they should be relative to another",
	claim:   "another data type, or plain weights, which should not be faster, are",
	help: "The row of a data type is held against the row of another at the same shape and kernel. It breaks the " +
		"rule when it takes more than `ratio` times the other's time. A pair is written as " +
		"`{dtype: int8, than: bf16, ratio: 1.0}`. The row of quantised weights is held against the fastest kernel " +
		"on plain ones at the same shape and type of activations. It breaks the rule when it takes more than `quantised` times that time.",
	settings: []setting{{
		key: "pairs", meaning: "which data type is held against which, and the largest ratio of their times",
		findings: true,
		value: func(c Config) string {
			pairs := make([]string, len(c.Rules.Parity.Pairs))
			for i, p := range c.Rules.Parity.Pairs {
				pairs[i] = p.String()
			}
			return list(pairs)
		},
		check: checkPairs,
	}, number("quantised", "the largest ratio of the time of quantised weights to that of plain ones", above(0, 100),
		func(c *Config) *float64 { return &c.Rules.Parity.Quantised }),
		{key: "dequantising", meaning: "kernels, or libraries with all of their choices, that multiply by the plain elements of quantised weights; they are not held against plain ones", findings: true,
			value: func(c Config) string { return list(c.Rules.Parity.Dequantising) }},
	},
	enabled: func(s *RuleSet) *bool { return &s.Parity.Enabled },
	judge:   (*evidence).parity,
	suspect: (*suspicion).parity,
	bound:   parityBound,
	cause:   (*witness).parity,
}

// checkPairs names the first pair that can't be.
func checkPairs(path []string, c Config) error {
	for i, p := range c.Rules.Parity.Pairs {
		at := append(slices.Clone(path), strconv.Itoa(i))
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
	return nil
}

// parityBound is the loss from which on the pair of data types of a finding breaks the rule, or
// the quantised weights.
func parityBound(cfg Config, f Finding) float64 {
	var than kernels.DType
	if f.Against != nil {
		than = f.Against.DType
		if f.Against.Weights != f.Series.Weights {
			return lost(-math.Log(cfg.Rules.Parity.Quantised))
		}
	}
	for _, p := range cfg.Rules.Parity.Pairs {
		if p.DType == f.Series.DType && p.Than == than {
			return lost(-math.Log(p.Ratio))
		}
	}
	return 0
}

// parity is [evidence.parity] for rows with few samples. A row that several pairs speak of keeps the one that accuses most.
func (s *suspicion) parity(c *curve) []judgement {
	if c.series.Key.Weights != (kernels.WeightFormat{}) {
		if plain := s.onPlainWeights(c); len(plain) > 0 && !s.dequantises(c.series.Key.Kernel) {
			return s.fastest(c, plain, math.Log(s.cfg.Rules.Parity.Quantised))
		}
		return nil
	}
	rows, partners := s.blank(c), 0.0
	for _, pair := range s.cfg.Rules.Parity.Pairs {
		if pair.DType != c.series.Key.DType {
			continue
		}
		partners++
		key := c.series.Key
		key.DType = pair.Than
		other := s.keyed[key]
		if other == nil {
			continue
		}
		for i, j := range s.fastest(c, []*curve{other}, math.Log(pair.Ratio)) {
			if j.tested && (!rows[i].tested || j.p < rows[i].p) {
				rows[i] = j
			}
		}
	}
	for i := range rows {
		rows[i].p = math.Min(1, rows[i].p*math.Max(1, partners))
	}
	return rows
}
