package fleet

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// first is the index of the model's first group.
func (r *Result) addGroups(a *answers, first int) {
	reference := 0
	for g := range a.groups {
		x := &a.groups[g]
		hosts, processes := map[int]bool{}, 0
		cases := make([]bool, len(a.cases))
		for _, c := range x.cards {
			hosts[a.cards[c].host] = true
			for _, p := range a.cards[c].processes {
				processes++
				for _, n := range a.caseOf[a.start[p]:a.start[p+1]] {
					cases[n] = true
				}
			}
		}
		n := 0
		for _, has := range cases {
			if has {
				n++
			}
		}
		out := Group{Model: a.name, Factors: x.factors, Peers: first + x.peers, Cards: len(x.cards), Hosts: len(hosts),
			Processes: processes, Cases: n,
			SustainedOf: a.sustainedOf, Common: a.whole.common.parts, Sustained: a.whole.sustained.parts, Drift: a.whole.common.drift,
			SustainedDrift: a.whole.sustained.drift, Modes: a.modes[g]}
		if out.Factors == nil {
			out.Factors = []results.Factor{}
		}
		if a.clocked {
			out.ClockMHz = math.Round(math.Exp(a.clock)*1000) / 1000
		}
		r.Groups = append(r.Groups, out)
		if len(x.cards) > len(a.groups[reference].cards) {
			reference = g
		}
	}
	for g := range a.groups {
		if g != reference {
			c := a.confound(g, reference)
			c.Group, c.Against = first+g, first+reference
			r.Confounds = append(r.Confounds, c)
		}
	}
}

func (a *answers) confound(g, against int) Confound {
	out := Confound{Factors: differing(a.groups[against].factors, a.groups[g].factors), P: 1}
	if out.Factors == nil {
		out.Factors = []results.FactorDiff{}
	}
	between := func(s *surface, e *effects) (stats.Interval, float64) {
		// The mean over cases of the difference of the centers, or of the cards without a center.
		mine, theirs := a.groups[g], a.groups[against]
		shift := 0.0
		if mine.peers == g {
			var v []float64
			for c := range a.cases {
				if x := s.centre[g][c] - s.centre[against][c]; x == x {
					v = append(v, x)
				}
			}
			if len(v) == 0 {
				return stats.Interval{}, 1
			}
			shift = middleHalf(v)
		}
		var devs []float64
		for _, c := range mine.cards {
			if x := e.cards[c]; x.known {
				devs = append(devs, x.dev)
			}
		}
		if len(devs) == 0 {
			return stats.Interval{}, 1
		}
		x := shift + median(devs)
		spread := usualCards * usualCards
		if c := e.parts.Card; c != nil {
			spread = *c * *c
		}
		if h := e.parts.Host; h != nil {
			spread += *h * *h
		}
		freedom := math.Max(priorCards, float64(e.parts.Cards-1))
		se := math.Sqrt(spread * (1/float64(len(mine.cards)) + 1/float64(len(theirs.cards))))
		return ratio(x, se, freedom), math.Min(1, 2*stats.UpperP(math.Abs(x)/se, freedom))
	}
	out.Ratio, out.P = between(a.common, a.whole.common)
	out.Sustained, _ = between(a.sustainedS, a.whole.sustained)
	return out
}
