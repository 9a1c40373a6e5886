package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// Pad is the rule that no larger M takes less time.
const Pad Rule = "pad"

var padRule = rule{
	name:    Pad,
	meaning: "a larger M takes less time",
	claim:   "a larger M takes less time",
	help: "The best alternative time is the shortest time at any larger M of the series. It assumes spare rows behind " +
		"the input and output, and no copy. A size breaks the rule if it takes longer by more than `margin`.",
	settings: []setting{
		number("margin", "smallest gain that counts", closed(0, 10),
			func(c *Config) *float64 { return &c.Rules.Pad.Margin }),
	},
	enabled: func(s *RuleSet) *bool { return &s.Pad.Enabled },
	applies: kernels.Subject.Paddable,
	judge:   (*Facts).pad,
	suspect: (*suspicion).pad,
	bound:   func(c Config, _ Finding) float64 { return MarginLoss(c.Rules.Pad.Margin) },
}

func (s *suspicion) pad(c *infer.Curve) []Judgement {
	rows, best, of := s.blank(c), -1, 0
	for i := len(c.Points) - 1; i >= 0; i-- {
		e, _, ok := s.known(c, i)
		if !ok {
			continue
		}
		if best >= 0 {
			than, own, _ := s.known(c, best)
			against := rows[i].direct()
			against.PadTo, against.Label = c.Points[best].M, ""
			s.hold(&rows[i], rival{enough: than, own: own, of: of, against: &against}, math.Log1p(s.Cfg.Rules.Pad.Margin))
		}
		of++
		if best < 0 || e.Y < c.Points[best].US.Y {
			best = i
		}
	}
	return rows
}
