package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/search"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// SplitRule is the rule that no two launches together take less time than the single one.
const SplitRule Rule = "split"

var splitRule = rule{
	name:    SplitRule,
	meaning: "two launches of M1 + M2 = M rows take less time than one",
	claim:   "two launches over parts of M take less time than one",
	help: "The best alternative time is the smallest T(M1) + T(M2) over all measured M1 + M2 = M of the series. A size " +
		"breaks the rule if it takes longer by more than `margin`.",
	settings: []setting{
		number("margin", "smallest gain that counts", closed(0, 10),
			func(c *Config) *float64 { return &c.Rules.Split.Margin }),
	},
	enabled: func(s *RuleSet) *bool { return &s.Split.Enabled },
	applies: kernels.Subject.Divisible,
	judge:   (*Facts).split,
	suspect: (*suspicion).split,
	bound:   func(c Config, _ Finding) float64 { return MarginLoss(c.Rules.Split.Margin) },
}

func (s *suspicion) split(c *infer.Curve) []Judgement {
	rows := s.blank(c)
	ms, costs := make([]int, len(c.Points)), make([]float64, len(c.Points))
	for i, p := range c.Points {
		ms[i], costs[i] = p.M, math.Inf(1)
		if e, _, ok := s.known(c, i); ok {
			costs[i] = math.Exp(e.Y)
		}
	}
	cheapest := search.New(ms, costs, 2)
	for i := range c.Points {
		parts, _ := cheapest.Parts(i, 2)
		if parts == nil {
			continue
		}
		total, variance, df, own := 0.0, 0.0, math.Inf(1), true
		share := map[int]float64{}
		for _, m := range parts {
			share[m]++
		}
		for m, n := range share {
			if k, ok := c.At(m); ok {
				e, its, _ := s.known(c, k)
				us := n * math.Exp(e.Y)
				total, variance, df, own = total+us, variance+us*us*e.SE*e.SE, math.Min(df, e.DF), own && its
			}
		}
		against := rows[i].direct()
		against.Parts, against.Label = parts, ""
		s.hold(&rows[i], rival{enough: stats.Estimate{Y: math.Log(total), SE: math.Sqrt(variance) / total, DF: df, Open: 0}, own: own,
			of: (i + 1) / 2, against: &against},
			math.Log1p(s.Cfg.Rules.Split.Margin))
	}
	return rows
}
