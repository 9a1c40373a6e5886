package rules

import "github.com/gemmaudit/gemmaudit/kernels"

// Pad is the rule that no larger M takes less time.
const Pad Rule = "pad"

var padRule = rule{
	name:    Pad,
	meaning: "a larger M takes less time",
	claim:   "a larger M takes less time",
	help: "The price of a row is the least time of any larger M of its series, in place: with room behind the rows, so that nothing is copied. The row breaks the rule when that " +
		"is below its own time by more than the margin.",
	settings: []setting{
		number("margin", "the gain above which padding counts", closed(0, 10),
			func(c *Config) *float64 { return &c.Rules.Pad.Margin }),
	},
	enabled: func(s *RuleSet) *bool { return &s.Pad.Enabled },
	applies: kernels.Subject.Paddable,
	judge:   (*evidence).pad,
	bound:   func(c Config, _ Finding) float64 { return marginLoss(c.Rules.Pad.Margin) },
}
