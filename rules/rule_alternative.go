package rules

import (
	"math"
)

// Alternative is the rule that no other kernel of the device is faster.
const Alternative Rule = "alternative"

// AlternativeConfig is the margin by which another kernel must be faster.
type AlternativeConfig struct {
	Enabled bool    `yaml:"enabled"`
	Margin  float64 `yaml:"margin"`
	// Exclude names kernels that are not judged; they still serve as alternatives.
	Exclude []string `yaml:"exclude"`
}

var alternativeRule = rule{
	name:    Alternative,
	meaning: "another kernel of the device is faster at the same product",
	claim:   "another kernel computes the same product faster",
	help: "The price of a row is the least time of any other kernel of the device at the same product, a library's " +
		"further choices among them. The row breaks the rule when that is below its own time by more than the margin.",
	settings: []setting{
		number("margin", "the gain above which another kernel counts", closed(0, 10),
			func(c *Config) *float64 { return &c.Rules.Alternative.Margin }),
		{key: "exclude", meaning: "kernels that are not judged; they still serve as alternatives", findings: true,
			value: func(c Config) string { return list(c.Rules.Alternative.Exclude) }},
	},
	enabled: func(s *RuleSet) *bool { return &s.Alternative.Enabled },
	judge:   (*evidence).alternative,
	suspect: (*suspicion).alternative,
	bound:   func(c Config, _ Finding) float64 { return marginLoss(c.Rules.Alternative.Margin) },
	cause:   (*witness).alternative,
}

// alternative is [evidence.alternative] for rows with few samples.
func (s *suspicion) alternative(c *curve) []judgement {
	if others := s.competitors(c); len(others) > 0 {
		return s.fastest(c, others, math.Log1p(s.cfg.Rules.Alternative.Margin))
	}
	return nil
}
