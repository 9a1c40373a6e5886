package rules

// Roofline is the rule that a row is near what the machine can do, and not beyond.
const Roofline Rule = "roofline"

// RooflineConfig bounds MFU from both sides.
type RooflineConfig struct {
	Enabled bool `yaml:"enabled"`
	// Fraction of the attainable rate below which a row is anomalous.
	Fraction float64 `yaml:"fraction"`
	// Tolerance above a ceiling past which the measurement is in error.
	Tolerance float64 `yaml:"tolerance"`
}

var rooflineRule = rule{
	name:    Roofline,
	meaning: "the rate is far below min(peak, intensity × bandwidth), or above what can be",
	claim:   "the time is far above what the machine's peak and memory bandwidth allow, or below what they can",
	help: "The ceiling of a row is min(peak, intensity × bandwidth) of its device. The row breaks the rule when " +
		"its rate is below `fraction` of that; the bandwidth is that of reading, and of copying for softmax. A rate above the ceiling by more than `tolerance` is a measurement error.",
	settings: []setting{
		number("fraction", "the share of the ceiling below which a row is anomalous", above(0, 1),
			func(c *Config) *float64 { return &c.Rules.Roofline.Fraction }),
		number("tolerance", "how far above the ceiling a rate may be", closed(0, 10),
			func(c *Config) *float64 { return &c.Rules.Roofline.Tolerance }),
	},
	enabled: func(s *RuleSet) *bool { return &s.Roofline.Enabled },
	judge:   (*evidence).roofline,
	suspect: (*suspicion).roofline,
	bound:   func(c Config, _ Finding) float64 { return 1 - c.Rules.Roofline.Fraction },
}

// roofline is [evidence.roofline] for rows with few samples.
func (s *suspicion) roofline(c *curve) []judgement {
	rows := s.evidence.ceilings(c, func(i int) (estimate, bool) {
		e, own, ok := s.known(c, i)
		e.y = c.points[i].seen.y
		return e, ok && !own
	})
	for i := range rows {
		if rows[i].tested {
			rows[i].verdict = Undecided
		}
	}
	return rows
}
