package fleet

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

type earlier struct {
	common, sustained *effects
}

// With fewer cards, a common change since the baseline may be a common fault.
const leastTogether = 4

// compareEarlier compares each card with itself in the baseline, without the change of the whole fleet; nil
// without common cards.
func (m *model) compareEarlier(b *Baseline, used []bool) *earlier {
	out := &earlier{&effects{cards: make([]effect, len(m.cards))}, &effects{cards: make([]effect, len(m.cards))}}
	type own struct{ common, sustained []float64 }
	levels := make([]own, len(m.cards))
	members := make([]*BaselineCard, len(m.cards))
	groups := make([]*BaselineGroup, len(m.cards))
	any := false
	for c := range m.cards {
		last := m.processes[m.cards[c].processes[len(m.cards[c].processes)-1]]
		if groups[c] = b.Group(m.name, last.factors); groups[c] == nil {
			continue
		}
		for i := range groups[c].Members {
			if groups[c].Members[i].Card == m.cards[c].id {
				members[c] = &groups[c].Members[i]
			}
		}
		if members[c] == nil {
			continue
		}
		for _, p := range m.cards[c].processes {
			if !used[p] {
				continue
			}
			x := groups[c].compare(m.processes[p], m.keysOf(p))
			if v := x.common.level(); v == v && members[c].Common > 0 {
				levels[c].common, any = append(levels[c].common, v-math.Log(members[c].Common)), true
			}
			if v := x.sustained.level(); v == v && members[c].Sustained > 0 {
				levels[c].sustained = append(levels[c].sustained, v-math.Log(members[c].Sustained))
			}
		}
	}
	if !any {
		return nil
	}
	fill := func(e *effects, of func(own) []float64, parts func(*BaselineGroup) Components) {
		var all []float64
		for c := range m.cards {
			if v := of(levels[c]); len(v) > 0 {
				all = append(all, median(v))
			}
		}
		together := 0.0
		if len(all) >= leastTogether {
			together = median(all)
		}
		for c := range m.cards {
			v := of(levels[c])
			if len(v) == 0 {
				continue
			}
			se, freedom := parts(groups[c]).between(len(v), members[c].Processes)
			if len(all) >= leastTogether {
				se = math.Hypot(se, stats.Scale(all)/math.Sqrt(float64(len(all))))
			}
			dev := median(v) - together
			e.cards[c] = effect{known: true, dev: dev, se: se, df: freedom, p: stats.UpperP(dev/se, freedom), n: len(v), peers: 1}
		}
	}
	fill(out.common, func(x own) []float64 { return x.common }, func(g *BaselineGroup) Components { return g.Common })
	fill(out.sustained, func(x own) []float64 { return x.sustained }, func(g *BaselineGroup) Components { return g.Sustained })
	return out
}

func (m *model) keysOf(process int) []caseKey {
	out := make([]caseKey, 0, m.start[process+1]-m.start[process])
	for v := m.start[process]; v < m.start[process+1]; v++ {
		out = append(out, m.cases[m.caseOf[v]])
	}
	return out
}
