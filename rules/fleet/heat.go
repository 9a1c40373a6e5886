package fleet

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func (a *answers) heat() *Heat {
	h := &Heat{Model: a.name}
	for c, key := range a.cases {
		us := math.NaN()
		for g := range a.groups {
			if y := a.common.centre[g][c]; y == y {
				us = math.Exp(y)
				break
			}
		}
		h.Cases = append(h.Cases, HeatCase{Series: key.series, M: key.m, US: us})
	}
	h.Common = a.cells(a.common, a.whole.common)
	h.Sustained = a.cells(a.sustainedS, a.whole.sustained)
	return h
}

// cells are each case's mean distances above the center of a card's peers, without the fleet's drift.
func (a *answers) cells(s *surface, whole *effects) [][]float32 {
	out := make([][]float32, len(a.cards))
	values := make([][]float64, len(a.cases))
	for c := range a.cards {
		for i := range values {
			values[i] = values[i][:0]
		}
		for _, p := range a.cards[c].processes {
			if !a.used[p] {
				continue
			}
			drift := s.levels[p] - whole.rest[p]
			if drift != drift {
				continue
			}
			for v := a.start[p]; v < a.start[p+1]; v++ {
				if x := s.rest[v]; x == x {
					values[a.caseOf[v]] = append(values[a.caseOf[v]], x-drift)
				}
			}
		}
		out[c] = make([]float32, len(a.cases))
		for i, v := range values {
			out[c][i] = float32(math.NaN())
			if len(v) > 0 {
				out[c][i] = float32(median(v))
			}
		}
	}
	return out
}

// leastColumn is the minimum number of cards to estimate the variation of one case.
const leastColumn = 4

// priorCases is the weight of the model's usual variation of cases, in degrees of freedom.
const priorCases = 6

// findCases controls the false discovery rate over all cells.
func (a *answers) findCases(h *Heat, cards []Card, s Settings) {
	spread := make([]float64, len(a.cases))
	var column, spreads []float64
	for i := range a.cases {
		column = column[:0]
		for c := range a.cards {
			if x := float64(h.Common[c][i]); x == x {
				column = append(column, x)
			}
		}
		if spread[i] = math.NaN(); len(column) >= leastColumn {
			spread[i] = math.Max(stats.Scale(column), leastDeviation)
			spreads = append(spreads, spread[i])
		}
	}
	if len(spreads) == 0 {
		return
	}
	usual := median(spreads)
	type cell struct {
		card, at int
		x        float64
	}
	var cells []cell
	var p []float64
	for c := range a.cards {
		for i := range a.cases {
			x := float64(h.Common[c][i])
			if x != x || spread[i] != spread[i] {
				continue
			}
			n := float64(len(a.cards))
			sd := math.Sqrt((n*spread[i]*spread[i] + priorCases*usual*usual) / (n + priorCases))
			cells = append(cells, cell{c, i, x})
			p = append(p, stats.UpperP(x/sd, n-1+priorCases))
		}
	}
	of := make([][]CaseRatio, len(cards))
	for k, q := range stats.AdjustP(p) {
		if x := cells[k]; q <= s.Level && math.Expm1(x.x) >= s.Watch {
			of[x.card] = append(of[x.card], CaseRatio{a.cases[x.at].series, a.cases[x.at].m, math.Exp(x.x), q})
		}
	}
	for c := range cards {
		slices.SortStableFunc(of[c], func(x, y CaseRatio) int { return cmp.Compare(y.Ratio, x.Ratio) })
		cards[c].SlowCases, cards[c].Worst = len(of[c]), of[c][:min(len(of[c]), mostWorst)]
	}
}
