package rules

// Monotonic is the rule that a larger M reaches no lower MFU.
const Monotonic Rule = "monotonic"

// MonotonicConfig switches the monotonic rule; its bound is Config.Threshold.
type MonotonicConfig struct {
	Enabled bool `yaml:"enabled"`
}

var monotonicRule = rule{
	name:    Monotonic,
	meaning: "MFU falls below threshold × what a smaller M reached",
	claim:   "a smaller batch reaches a higher MFU, which no larger one should fall behind",
	help: "The reference of a row is the largest MFU over smaller M of its series. The row breaks the rule when " +
		"its own MFU is below `threshold` of that. `threshold` is a key of its own at the top of the rules file, " +
		"and the bound of the article's method too.",
	enabled: func(s *RuleSet) *bool { return &s.Monotonic.Enabled },
	judge:   (*family).monotonic,
	bound:   func(c Config, _ Finding) float64 { return 1 - c.Threshold },
}
