package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// Alternative is the rule that no other kernel of the device is faster.
const Alternative Rule = "alternative"

// AlternativeConfig configures the margin of a faster kernel.
type AlternativeConfig struct {
	Enabled bool    `yaml:"enabled"`
	Margin  float64 `yaml:"margin"`
	// Exclude names kernels that are not judged; they still serve as alternatives.
	Exclude []string `yaml:"exclude"`
}

var alternativeRule = rule{
	name:    Alternative,
	meaning: "another kernel of the device computes the same product faster",
	claim:   "another kernel computes the same product faster",
	help: "The best alternative time is the shortest time of any other kernel of the device, including further " +
		"algorithms of a library (`--algos`). A size breaks the rule if it takes longer by more than `margin`.",
	settings: []setting{
		number("margin", "smallest gain that counts", closed(0, 10),
			func(c *Config) *float64 { return &c.Rules.Alternative.Margin }),
		{key: "exclude", meaning: "kernels that are not judged; other kernels are still compared with them", findings: true,
			value: func(c Config) string { return list(c.Rules.Alternative.Exclude) }},
	},
	enabled: func(s *RuleSet) *bool { return &s.Alternative.Enabled },
	judge:   (*Facts).alternative,
	suspect: (*suspicion).alternative,
	bound:   func(c Config, _ Finding) float64 { return MarginLoss(c.Rules.Alternative.Margin) },
	cause:   (*cause.Witness).Alternative,
}

func (s *suspicion) alternative(c *infer.Curve) []Judgement {
	if others := s.competitors(c); len(others) > 0 {
		return s.fastest(c, others, math.Log1p(s.Cfg.Rules.Alternative.Margin))
	}
	return nil
}
