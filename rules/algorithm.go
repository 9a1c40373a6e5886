package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// AlgorithmTeller is implemented by measurers that know what a library is to be told to run
// what its heuristic chooses for a case.
type AlgorithmTeller interface {
	// Algorithm is what that is; ok is false where nobody tells.
	Algorithm(c results.Case) (a kernels.Algorithm, ok bool)
}

// otherKind is the kind of remedy that a series is which takes over.
func otherKind(other *curve) RemedyKind {
	if _, n := kernels.SplitCandidate(other.series.Key.Kernel); n > 0 {
		return RemedyAlgorithm
	}
	return RemedyOther
}

// otherPlan has one of the series elsewhere take over, of a library's choices the algorithm that runs at
// a point of it.
func otherPlan(other *curve, at int, elsewhere []*curve) plan {
	p := plan{kind: otherKind(other), other: other}
	if p.kind == RemedyAlgorithm && other.points[at].label != "" {
		p.label = other.points[at].label
		base, _ := kernels.SplitCandidate(other.series.Key.Kernel)
		for _, c := range elsewhere {
			if own, _ := kernels.SplitCandidate(c.series.Key.Kernel); own == base {
				p.choices = append(p.choices, c)
			}
		}
	}
	return p
}

// runningAt is the series in which the library of a plan runs the plan's algorithm at an M: of several
// the one with the least upper bound, nil for none. The direct product is never it: its algorithm is
// no other one.
func (f *evidence) runningAt(p plan, m int) *curve {
	if p.label == "" {
		return p.other
	}
	var best *curve
	least := math.Inf(1)
	for _, other := range p.choices {
		i, ok := other.at(m)
		if ok && other.points[i].label == p.label && f.upper[other][i] < least {
			best, least = other, f.upper[other][i]
		}
	}
	return best
}

// name asks a library what it is to be told to run the algorithms of a stretch. Where it does not
// tell, they stay the choices that were measured.
func (s *stretchPlan) name(m Measurer) {
	teller, ok := m.(AlgorithmTeller)
	if !ok {
		return
	}
	for i := range s.plans {
		p := &s.plans[i]
		if p.kind != RemedyAlgorithm || p.label == "" {
			continue
		}
		at := s.curve.points[s.anchor].m
		c := results.Case{SeriesKey: p.other.series.Key, M: at}
		if a, ok := teller.Algorithm(c); ok {
			p.library, _ = kernels.SplitCandidate(c.Kernel)
			p.algorithm = a
		}
	}
}
