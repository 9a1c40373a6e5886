package remedy

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// AlgorithmTeller is implemented by measurers that can report the algorithm that a library's heuristic
// chooses for a case.
type AlgorithmTeller interface {
	// Algorithm returns the algorithm's attributes; ok is false if the library does not report them.
	Algorithm(c results.Case) (a kernels.Algorithm, ok bool)
}

func otherKind(other *infer.Curve) rules.RemedyKind {
	if _, n := kernels.SplitCandidate(other.Series.Key.Kernel); n > 0 {
		return rules.RemedyAlgorithm
	}
	return rules.RemedyOther
}

// otherPlan switches to one of the series in elsewhere. For a library's own choices it fixes the algorithm
// that runs at point at.
func otherPlan(other *infer.Curve, at int, elsewhere []*infer.Curve) plan {
	p := plan{kind: otherKind(other), other: other}
	if p.kind == rules.RemedyAlgorithm && other.Points[at].Label != "" {
		p.label = other.Points[at].Label
		base, _ := kernels.SplitCandidate(other.Series.Key.Kernel)
		for _, c := range elsewhere {
			if own, _ := kernels.SplitCandidate(c.Series.Key.Kernel); own == base {
				p.choices = append(p.choices, c)
			}
		}
	}
	return p
}

// runningAt returns the series whose kernel at m is the plan's algorithm, or nil. It prefers the lowest upper
// bound. The direct product is excluded: it already runs the default algorithm.
func runningAt(f *rules.Facts, p plan, m int) *infer.Curve {
	if p.label == "" {
		return p.other
	}
	var best *infer.Curve
	least := math.Inf(1)
	for _, other := range p.choices {
		i, ok := other.At(m)
		if ok && other.Points[i].Label == p.label && f.Upper[other][i] < least {
			best, least = other, f.Upper[other][i]
		}
	}
	return best
}

// name asks the library for the attributes of the stretch's algorithms. If it does not report them, the
// stretch keeps the measured choices.
func (s *stretchPlan) name(m rules.Measurer) {
	teller, ok := m.(AlgorithmTeller)
	if !ok {
		return
	}
	for i := range s.plans {
		p := &s.plans[i]
		if p.kind != rules.RemedyAlgorithm || p.label == "" {
			continue
		}
		at := s.curve.Points[s.anchor].M
		c := results.Case{SeriesKey: p.other.Series.Key, M: at}
		if a, ok := teller.Algorithm(c); ok {
			p.library, _ = kernels.SplitCandidate(c.Kernel)
			p.algorithm = a
		}
	}
}
