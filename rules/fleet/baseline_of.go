package fleet

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Baseline returns the fleet's times as a baseline, without flagged cards.
func (r *Result) Baseline() *Baseline {
	b := &Baseline{Schema: BaselineSchema, Created: r.To, Groups: []BaselineGroup{}}
	verdicts := map[[2]string]Verdict{}
	for _, c := range r.Cards {
		verdicts[[2]string{c.Model, c.Card}] = c.Verdict
	}
	for _, a := range r.all {
		named := make([]bool, len(a.cards))
		for c := range a.cards {
			v := verdicts[[2]string{a.name, a.cards[c].id}]
			named[c] = v == Drain || v == Watch && !a.slower[c]
		}
		for g := range a.groups {
			if a.groups[g].peers == g {
				b.Groups = append(b.Groups, a.baseline(g, named))
			}
		}
	}
	return b
}

func (a *answers) baseline(g int, named []bool) BaselineGroup {
	var cards []int
	for c := range a.cards {
		if a.groups[a.cards[c].group].peers == g {
			cards = append(cards, c)
		}
	}
	out := BaselineGroup{Model: a.name, Factors: a.groups[g].factors, Cards: len(cards), SustainedOf: a.sustainedOf,
		Common: a.whole.common.parts, Sustained: a.whole.sustained.parts, Conditions: a.conditions(cards), Cases: []BaselineCase{},
		Members: []BaselineCard{}}
	if a.clocked {
		out.ClockMHz = math.Exp(a.clock)
	}
	bound := a.memoryBound(a.common)
	common, sustained := a.scatter(g, a.common, named), a.scatter(g, a.sustainedS, named)
	for i, key := range a.cases {
		us := math.Exp(a.common.centre[g][i])
		if !(us >= results.LeastUS && us <= results.MostUS) {
			continue
		}
		c := BaselineCase{Series: key.series, M: key.m, US: us, Beta: math.Max(0, math.Min(1, a.betas[i])), Memory: bound[i],
			Card: common[i].card, Process: common[i].process, SustainedCard: sustained[i].card, SustainedProcess: sustained[i].process}
		if us := math.Exp(a.sustainedS.centre[g][i]); us >= results.LeastUS && us <= results.MostUS {
			c.SustainedUS = us
		}
		out.Cases = append(out.Cases, c)
	}
	for _, c := range cards {
		last := a.processes[a.cards[c].processes[len(a.cards[c].processes)-1]]
		m := BaselineCard{Card: a.cards[c].id, Host: last.host, Device: last.device}
		var x, y []float64
		for _, p := range a.cards[c].processes {
			if !a.used[p] {
				continue
			}
			out.Processes++
			m.Processes++
			if v := a.levelOf(a.common, p, every, 1); v == v {
				x = append(x, v)
			}
			if v := a.levelOf(a.sustainedS, p, every, 1); v == v {
				y = append(y, v)
			}
		}
		if len(x) > 0 {
			m.Common = math.Exp(median(x))
		}
		if len(y) > 0 {
			m.Sustained = math.Exp(median(y))
		}
		out.Members = append(out.Members, m)
	}
	return out
}

// scatterOf holds standard deviations of logs; nil if unknown.
type scatterOf struct{ card, process *float64 }

func (a *answers) scatter(g int, s *surface, named []bool) []scatterOf {
	type sums struct{ within, freedom, n, sum, squares, inverse float64 }
	all := make([]sums, len(a.cases))
	values := make([][]float64, len(a.cases))
	for c := range a.cards {
		if named[c] || a.groups[a.cards[c].group].peers != g {
			continue
		}
		for i := range values {
			values[i] = values[i][:0]
		}
		for _, p := range a.cards[c].processes {
			if !a.used[p] {
				continue
			}
			for v := a.start[p]; v < a.start[p+1]; v++ {
				if x := s.rest[v]; x == x {
					values[a.caseOf[v]] = append(values[a.caseOf[v]], x)
				}
			}
		}
		for i, v := range values {
			if len(v) == 0 {
				continue
			}
			m := stats.Mean(v)
			x := &all[i]
			for _, y := range v {
				x.within += (y - m) * (y - m)
			}
			x.freedom += float64(len(v) - 1)
			x.n, x.sum, x.squares, x.inverse = x.n+1, x.sum+m, x.squares+m*m, x.inverse+1/float64(len(v))
		}
	}
	out := make([]scatterOf, len(a.cases))
	for i, x := range all {
		process := 0.0 // included in the cards' deviation if it is unknown
		if x.freedom > 0 {
			process = x.within / x.freedom
			sd := math.Sqrt(process)
			out[i].process = &sd
		}
		if x.n > 1 {
			sd := math.Sqrt(math.Max(0, math.Max(0, x.squares-x.sum*x.sum/x.n)/(x.n-1)-process*x.inverse/x.n))
			out[i].card = &sd
		}
	}
	return out
}
