package fleet

import "math"

const leastCases = 3

func (m *model) hours(p int) float64 {
	x := m.processes[p]
	if x.from == 0 {
		return 0
	}
	return float64(x.from+(x.to-x.from)/2-m.first) / 3.6e9
}

func (m *model) peersOf(process int) int { return m.groups[m.cards[m.cardOf[process]].group].peers }

// surface holds the time of each case in each group of peers, and each value's distance above it.
type surface struct {
	centre [][]float64 // by group and case, logs of microseconds; NaN if no card of the group has it
	rest   []float64   // by value, above the center; NaN for none
	levels []float64   // by process: the robust mean of its rest
}

const polishRounds = 4

// polish is a median polish. A card has one vote regardless of its number of processes.
func (m *model) polish(values []float64) *surface {
	s := &surface{centre: make([][]float64, len(m.groups)), rest: nans(len(values)), levels: make([]float64, len(m.processes))}
	for g := range s.centre {
		s.centre[g] = nans(len(m.cases))
	}
	process := make([]int32, len(values))
	for p := range m.processes {
		for v := m.start[p]; v < m.start[p+1]; v++ {
			process[v] = int32(p)
		}
	}
	votes := make([]float64, len(m.processes))
	for p := range votes {
		votes[p] = 1 / float64(len(m.cards[m.cardOf[p]].processes))
	}
	own := make([][]weighed, len(m.groups))
	var middle []float64
	for range polishRounds {
		for c := range m.cases {
			for g := range own {
				own[g] = own[g][:0]
			}
			for _, v := range m.byCase[m.caseStart[c]:m.caseStart[c+1]] {
				p := process[v]
				g := m.cards[m.cardOf[p]].group
				if m.groups[g].peers == g && values[v] == values[v] {
					own[g] = append(own[g], weighed{values[v] - s.levels[p], votes[p]})
				}
			}
			for g := range own {
				s.centre[g][c] = weightedMedian(own[g])
			}
		}
		for p := range m.processes {
			middle = middle[:0]
			g := m.peersOf(p)
			for v := m.start[p]; v < m.start[p+1]; v++ {
				if s.rest[v] = values[v] - s.centre[g][m.caseOf[v]]; s.rest[v] == s.rest[v] {
					middle = append(middle, s.rest[v])
				}
			}
			if s.levels[p] = 0; len(middle) > 0 {
				s.levels[p] = steadyMiddle(middle)
			}
		}
	}
	return s
}

// apart reports for each process whether no other process of its peers shares a case.
func (m *model) apart() []bool {
	out := make([]bool, len(m.processes))
	type shared struct {
		peers int
		at    int32
	}
	of := map[shared]int{}
	for pass := range 2 {
		for p := range m.processes {
			out[p] = true
			for v := m.start[p]; v < m.start[p+1]; v++ {
				key := shared{m.peersOf(p), m.caseOf[v]}
				if pass == 0 {
					of[key]++
				} else if of[key] > 1 {
					out[p] = false
					break
				}
			}
		}
	}
	return out
}

// levelOf returns NaN for too few cases.
func (m *model) levelOf(s *surface, process int, in func(c int32) bool, least int) float64 {
	var v []float64
	for at := m.start[process]; at < m.start[process+1]; at++ {
		if s.rest[at] == s.rest[at] && in(m.caseOf[at]) {
			v = append(v, s.rest[at])
		}
	}
	if len(v) < least {
		return math.NaN()
	}
	return steadyMiddle(v)
}
