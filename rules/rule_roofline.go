package rules

import (
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Roofline is the rule that a row is near the roofline, and not above it.
const Roofline Rule = "roofline"

// RooflineConfig limits MFU from both sides.
type RooflineConfig struct {
	Enabled bool `yaml:"enabled"`
	// Fraction of the attainable rate below which a row is anomalous.
	Fraction float64 `yaml:"fraction"`
	// Tolerance above a ceiling beyond which the measurement is in error.
	Tolerance float64 `yaml:"tolerance"`
}

var rooflineRule = rule{
	name:    Roofline,
	meaning: "the rate is far below the roofline min(peak, intensity × bandwidth), or above it",
	claim:   "the rate is far below the roofline, or above it",
	help: "A size breaks the rule if its rate is below `fraction` × the roofline of the device. It uses the bandwidth " +
		"of reading, or of copying for softmax. A rate above the roofline by more than `tolerance` is a measurement error.",
	settings: []setting{
		number("fraction", "share of the roofline below which a size is anomalous", above(0, 1),
			func(c *Config) *float64 { return &c.Rules.Roofline.Fraction }),
		number("tolerance", "how far a rate may exceed the roofline", closed(0, 10),
			func(c *Config) *float64 { return &c.Rules.Roofline.Tolerance }),
	},
	enabled: func(s *RuleSet) *bool { return &s.Roofline.Enabled },
	judge:   (*Facts).roofline,
	suspect: (*suspicion).roofline,
	bound:   func(c Config, _ Finding) float64 { return 1 - c.Rules.Roofline.Fraction },
}

func (s *suspicion) roofline(c *infer.Curve) []Judgement {
	rows := s.Facts.ceilings(c, func(i int) (stats.Estimate, bool) {
		e, own, ok := s.known(c, i)
		e.Y = c.Points[i].Seen.Y
		return e, ok && !own
	})
	for i := range rows {
		if rows[i].Tested {
			rows[i].Verdict = Undecided
		}
	}
	return rows
}
