package rules

import (
	"math"
)

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
	judge:   (*evidence).monotonic,
	suspect: (*suspicion).monotonic,
	bound:   func(c Config, _ Finding) float64 { return 1 - c.Threshold },
}

// monotonic is [evidence.monotonic] for rows with few samples.
func (s *suspicion) monotonic(c *curve) []judgement {
	rows, best, of := s.blank(c), -1, 0
	for i := range c.points {
		e, _, ok := s.known(c, i)
		if !ok {
			continue
		}
		p := &c.points[i]
		if best >= 0 {
			b := &c.points[best]
			than, own, _ := s.known(c, best)
			rows[i].base = []int{best}
			s.hold(&rows[i], rival{enough: estimate{p.flops - b.flops + than.y, than.se, than.df}, own: own, of: of, against: c.caseOf(best), ideal: p.flops - b.flops},
				-math.Log(s.cfg.Threshold))
		}
		of++
		if best < 0 || p.flops-e.y > c.points[best].rate() {
			best = i
		}
	}
	return rows
}
