package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

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
	applies: kernels.Subject.Divisible,
	judge:   (*evidence).split,
	suspect: (*suspicion).split,
	bound:   func(c Config, _ Finding) float64 { return marginLoss(c.Rules.Split.Margin) },
}

// split is [evidence.split] for rows with few samples.
func (s *suspicion) split(c *curve) []judgement {
	rows := s.blank(c)
	ms, costs := make([]int, len(c.points)), make([]float64, len(c.points))
	for i, p := range c.points {
		ms[i], costs[i] = p.m, math.Inf(1)
		if e, _, ok := s.known(c, i); ok {
			costs[i] = math.Exp(e.y)
		}
	}
	search := newPartition(ms, costs, 2)
	for i := range c.points {
		parts, _ := search.parts(i, 2)
		if parts == nil {
			continue
		}
		total, variance, df, own := 0.0, 0.0, math.Inf(1), true
		share := map[int]float64{}
		for _, m := range parts {
			share[m]++
		}
		for m, n := range share {
			if k, ok := c.at(m); ok {
				e, its, _ := s.known(c, k)
				us := n * math.Exp(e.y)
				total, variance, df, own = total+us, variance+us*us*e.se*e.se, math.Min(df, e.df), own && its
			}
		}
		against := rows[i].direct()
		against.Parts, against.Label = parts, ""
		s.hold(&rows[i], rival{enough: estimate{math.Log(total), math.Sqrt(variance) / total, df}, own: own, of: (i + 1) / 2, against: &against},
			math.Log1p(s.cfg.Rules.Split.Margin))
	}
	return rows
}
