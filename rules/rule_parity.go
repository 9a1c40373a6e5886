package rules

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Parity is the rule that one data type is as fast as another, within a ratio, and quantized weights as fast
// as plain ones.
const Parity Rule = "parity"

// ParityConfig lists pairs of data types, and the ratio for quantized weights.
type ParityConfig struct {
	Enabled bool         `yaml:"enabled"`
	Pairs   []ParityPair `yaml:"pairs"`
	// Quantised is the largest ratio of the time with quantized weights to the time with plain ones.
	Quantised float64 `yaml:"quantised"`
	// Dequantising names kernels that this part of the rule does not judge, because they multiply the plain
	// elements of quantized weights.
	Dequantising []string `yaml:"dequantising"`
}

// ParityPair says that DType may take at most Ratio times the time of Than.
type ParityPair struct {
	DType kernels.DType `yaml:"dtype"`
	Than  kernels.DType `yaml:"than"`
	Ratio float64       `yaml:"ratio"`
}

// String is the pair in documentation and kept proof: "int8 than bf16 1".
func (p ParityPair) String() string {
	return fmt.Sprintf("%s than %s %s", p.DType, p.Than, plain(p.Ratio))
}

var parityRule = rule{
	name:    Parity,
	meaning: "a data type, or quantized weights, are slower than a type at least as wide",
	claim:   "another data type or unquantized weights are faster, and should not be",
	help: "A size is compared with the same product and kernel in another data type. It breaks the rule if it takes more " +
		"than `ratio` × that time. Write a pair as `{dtype: int8, than: bf16, ratio: 1.0}`. Quantized weights are " +
		"compared with the fastest kernel for unquantized weights, at the same shape and type of activations. They break " +
		"the rule if they take more than `quantised` × that time. If activations have scales, too, as for fp8:128x128, `pairs` " +
		"apply.",
	settings: []setting{{
		key: "pairs", meaning: "data types to compare, and the largest allowed ratio of their times",
		findings: true,
		value: func(c Config) string {
			pairs := make([]string, len(c.Rules.Parity.Pairs))
			for i, p := range c.Rules.Parity.Pairs {
				pairs[i] = p.String()
			}
			return list(pairs)
		},
		check: checkPairs,
	}, number("quantised", "largest allowed ratio of quantized to unquantized time", above(0, 100),
		func(c *Config) *float64 { return &c.Rules.Parity.Quantised }),
		{key: "dequantising",
			meaning:  "kernels and libraries that dequantize the weights first; these are not compared with unquantized weights",
			findings: true,
			value:    func(c Config) string { return list(c.Rules.Parity.Dequantising) }},
	},
	enabled: func(s *RuleSet) *bool { return &s.Parity.Enabled },
	judge:   (*Facts).parity,
	suspect: (*suspicion).parity,
	bound:   parityBound,
	cause:   (*cause.Witness).Parity,
}

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

// parityBound is the least loss that breaks the rule for a finding's data types or quantized weights.
func parityBound(cfg Config, f Finding) float64 {
	var than kernels.DType
	if f.Against != nil {
		than = f.Against.DType
		if f.Against.Weights != f.Series.Weights && than == f.Series.DType {
			return stats.Lost(-math.Log(cfg.Rules.Parity.Quantised))
		}
	}
	for _, p := range cfg.Rules.Parity.Pairs {
		if p.DType == f.Series.DType && p.Than == than {
			return stats.Lost(-math.Log(p.Ratio))
		}
	}
	return 0
}

// parity is [Facts.parity] for rows with few samples. A row in several pairs keeps the judgement with the
// smallest p-value.
func (s *suspicion) parity(c *infer.Curve) []Judgement {
	if c.Series.Key.Quantized() && !c.Series.Key.Scaled() {
		if plain := s.onPlainWeights(c); len(plain) > 0 && !s.dequantises(c.Series.Key.Kernel) {
			return s.fastest(c, plain, math.Log(s.Cfg.Rules.Parity.Quantised))
		}
		return nil
	}
	rows, partners := s.blank(c), 0.0
	for _, pair := range s.Cfg.Rules.Parity.Pairs {
		if pair.DType != c.Series.Key.DType {
			continue
		}
		partners++
		key := c.Series.Key
		key.DType, key.Weights = pair.Than, kernels.WeightFormat{}
		other := s.keyed[key]
		if other == nil {
			continue
		}
		for i, j := range s.fastest(c, []*infer.Curve{other}, math.Log(pair.Ratio)) {
			if j.Tested && (!rows[i].Tested || j.p < rows[i].p) {
				rows[i] = j
			}
		}
	}
	for i := range rows {
		rows[i].p = math.Min(1, rows[i].p*math.Max(1, partners))
	}
	return rows
}
