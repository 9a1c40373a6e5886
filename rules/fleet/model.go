package fleet

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// leastPeers is the minimum size of a group whose cards are compared with each other.
	leastPeers = 2
	// clockStep is the rounding of the common clock, in MHz.
	clockStep = 50
	// clockDoubt is the possible error of β. The correction of a card throttled to half its clock is
	// uncertain.
	clockDoubt = 0.05
	// elasticitySpread is the smallest accepted standard error of β in one process.
	elasticitySpread = 0.02
)

type model struct {
	name      string
	processes []*process
	cardOf    []int // by process
	cards     []modelCard
	hosts     []string
	groups    []modelGroup
	clock     float64 // log of the common clock in MHz, 0 if clocks are unknown
	cases     []caseKey
	first     int64 // microseconds since 1970, of the fleet's first sample

	// Process i has the values start[i] to start[i+1].
	start             []int
	caseOf            []int32
	common, sustained []float64 // logs of microseconds, or NaN
	byCase            []int32
	caseStart         []int
	betas             []float64 // by case
	sustainedOf       results.Phase
	clocked           bool
}

type modelCard struct {
	id        string
	host      int
	group     int
	processes []int
}

type modelGroup struct {
	factors []results.Factor
	cards   []int
	peers   int // the group of its cards' peers
}

func newModels(processes []*process, cases []caseKey, s Settings) []*model {
	var out []*model
	var first int64
	for _, p := range processes {
		if p.from > 0 && (first == 0 || p.from < first) {
			first = p.from
		}
	}
	for own := range byModel(processes) {
		m := &model{name: own[0].model, processes: own, first: first}
		m.identify()
		m.take(cases)
		m.bring(s)
		out = append(out, m)
	}
	return out
}

// byModel yields the processes of each model, by which they are ordered.
func byModel(processes []*process) iter.Seq[[]*process] {
	return func(yield func([]*process) bool) {
		for len(processes) > 0 {
			n := slices.IndexFunc(processes, func(p *process) bool { return p.model != processes[0].model })
			if n < 0 {
				n = len(processes)
			}
			if !yield(processes[:n]) {
				return
			}
			processes = processes[n:]
		}
	}
}

func (m *model) identify() {
	cards, hosts, groups := map[string]int{}, map[string]int{}, map[string]int{}
	for i, p := range m.processes {
		h, ok := hosts[p.host]
		if !ok {
			h = len(m.hosts)
			hosts[p.host] = h
			m.hosts = append(m.hosts, p.host)
		}
		c, ok := cards[p.card]
		if !ok {
			c = len(m.cards)
			cards[p.card] = c
			m.cards = append(m.cards, modelCard{id: p.card})
		}
		m.cards[c].host = h
		m.cards[c].processes = append(m.cards[c].processes, i)
		m.cardOf = append(m.cardOf, c)
	}
	for c := range m.cards {
		last := m.processes[m.cards[c].processes[len(m.cards[c].processes)-1]]
		name := signature(last.factors)
		g, ok := groups[name]
		if !ok {
			g = len(m.groups)
			groups[name] = g
			m.groups = append(m.groups, modelGroup{factors: last.factors})
		}
		m.cards[c].group = g
		m.groups[g].cards = append(m.groups[g].cards, c)
	}
	largest := 0
	for g := range m.groups {
		if len(m.groups[g].cards) > len(m.groups[largest].cards) {
			largest = g
		}
	}
	for g := range m.groups {
		if m.groups[g].peers = g; len(m.groups[g].cards) < leastPeers {
			m.groups[g].peers = largest
		}
	}
}

func signature(factors []results.Factor) string {
	var b strings.Builder
	for _, f := range factors {
		b.WriteString(f.Name + "\x00" + f.Value + "\x00")
	}
	return b.String()
}

// take renumbers the cases of this model's processes.
func (m *model) take(cases []caseKey) {
	total := 0
	for _, p := range m.processes {
		total += len(p.cases)
	}
	used := make([]bool, len(cases))
	for _, p := range m.processes {
		for i := range p.cases {
			used[p.cases[i].at] = true
		}
	}
	var order []int
	for i, u := range used {
		if u {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return compareCases(cases[a], cases[b]) })
	number := make([]int32, len(cases))
	for n, i := range order {
		number[i] = int32(n)
		m.cases = append(m.cases, cases[i])
	}
	m.start, m.caseOf = make([]int, 1, len(m.processes)+1), make([]int32, 0, total)
	m.caseStart = make([]int, len(m.cases)+1)
	for _, p := range m.processes {
		for i := range p.cases {
			n := number[p.cases[i].at]
			m.caseOf = append(m.caseOf, n)
			m.caseStart[n+1]++
		}
		m.start = append(m.start, len(m.caseOf))
	}
	for i := range m.cases {
		m.caseStart[i+1] += m.caseStart[i]
	}
	next := slices.Clone(m.caseStart)
	m.byCase = make([]int32, total)
	for v, c := range m.caseOf {
		m.byCase[next[c]] = int32(v)
		next[c]++
	}
}

func compareCases(a, b caseKey) int {
	return cmp.Or(cmp.Compare(a.series.String(), b.series.String()), cmp.Compare(a.series.Threads, b.series.Threads), cmp.Compare(a.m, b.m))
}

// bring converts all times to the common clock, and selects the source of sustained time.
func (m *model) bring(s Settings) {
	var clocks []float64
	with, alone := 0, 0
	for _, p := range m.processes {
		sum, n, sustained := 0.0, 0, 0
		for i := range p.cases {
			if c := p.cases[i].clock; c > 0 {
				sum, n = sum+float64(c), n+1
			}
			if p.cases[i].alone == p.cases[i].alone {
				sustained++
			}
		}
		if n > 0 {
			clocks = append(clocks, sum/float64(n))
		}
		if with++; sustained >= leastCases {
			alone++
		}
	}
	m.clocked = len(clocks) == len(m.processes)
	if m.clocked {
		mhz := s.ClockMHz
		if mhz <= 0 {
			mhz = math.Max(clockStep, math.Round(math.Exp(median(clocks))/clockStep)*clockStep)
		}
		m.clock = math.Log(mhz)
	}
	m.sustainedOf = results.PhaseSweep
	if alone > 0 && 2*alone >= with {
		m.sustainedOf = results.PhaseSustained
	}
	m.common, m.sustained = make([]float64, len(m.caseOf)), make([]float64, len(m.caseOf))
	// Pooling all cards of a model gives a better estimate of the clock elasticity.
	weights := make([]float64, len(m.cases))
	m.betas = make([]float64, len(m.cases))
	for i, p := range m.processes {
		for k := range p.cases {
			o := &p.cases[k]
			if o.clock > 0 {
				se := math.Hypot(float64(o.betaSE), elasticitySpread)
				c := m.caseOf[m.start[i]+k]
				m.betas[c] += float64(o.beta) / (se * se)
				weights[c] += 1 / (se * se)
			}
		}
	}
	for c, w := range weights {
		if w > 0 {
			m.betas[c] /= w
		}
	}
	for i, p := range m.processes {
		for k := range p.cases {
			o, at := &p.cases[k], m.start[i]+k
			m.common[at] = float64(o.atClock)
			if m.clocked {
				m.common[at] += m.betas[m.caseOf[at]] * (float64(o.clock) - m.clock)
			}
			if m.sustained[at] = float64(o.seen); m.sustainedOf == results.PhaseSustained {
				m.sustained[at] = float64(o.alone)
			}
		}
	}
}
