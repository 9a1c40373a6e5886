package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Monotonic is the rule that a larger M does not have a lower MFU.
const Monotonic Rule = "monotonic"

// MonotonicConfig switches the monotonic rule; its bound is Config.Threshold.
type MonotonicConfig struct {
	Enabled bool `yaml:"enabled"`
}

var monotonicRule = rule{
	name:    Monotonic,
	meaning: "MFU drops below threshold × the best MFU at a smaller M",
	claim:   "a smaller M reaches a higher MFU",
	help: "The reference of a size is the best MFU at any smaller M of its series. A size breaks the rule if its MFU is " +
		"below `threshold` × the reference. With drawn or recorded routing, the bytes of further experts count too. " +
		"Set `threshold` at the top level of the rules file.",
	enabled: func(s *RuleSet) *bool { return &s.Monotonic.Enabled },
	judge:   (*Facts).monotonic,
	suspect: (*suspicion).monotonic,
	bound:   func(c Config, _ Finding) float64 { return 1 - c.Threshold },
}

func (s *suspicion) monotonic(c *infer.Curve) []Judgement {
	rows, best, of := s.blank(c), -1, 0
	for i := range c.Points {
		e, _, ok := s.known(c, i)
		if !ok {
			continue
		}
		p := &c.Points[i]
		if best >= 0 {
			than, own, _ := s.known(c, best)
			rows[i].Base = []int{best}
			ideal := idealRatio(c, i, best)
			s.hold(&rows[i], rival{enough: stats.Estimate{Y: ideal + than.Y, SE: than.SE, DF: than.DF, Open: than.Open},
				own: own, of: of, against: c.CaseOf(best), ideal: ideal},
				-math.Log(s.Cfg.Threshold))
		}
		of++
		if best < 0 || p.Flops-e.Y > c.Points[best].Rate() {
			best = i
		}
	}
	return rows
}
