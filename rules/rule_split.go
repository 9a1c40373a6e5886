package rules

import "github.com/gemmaudit/gemmaudit/kernels"

// SplitRule is the rule that no two launches take less time together than the one.
const SplitRule Rule = "split"

var splitRule = rule{
	name:    SplitRule,
	meaning: "two launches of N1 + N2 = N rows take less time than one of N",
	claim:   "two launches over parts of M take less time together than the one",
	help: "The price of a row is the cheapest T(N1) + T(N2) over all measured N1 + N2 = N of its series. The row " +
		"breaks the rule when that is below its own time by more than the margin.",
	settings: []setting{
		number("margin", "the gain above which a split counts", closed(0, 10),
			func(c *Config) *float64 { return &c.Rules.Split.Margin }),
	},
	enabled: func(s *RuleSet) *bool { return &s.Split.Enabled },
	applies: kernels.Operation.Divisible,
	judge:   (*family).split,
	bound:   func(c Config, _ Finding) float64 { return marginLoss(c.Rules.Split.Margin) },
}
