package fleet

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// leastPeers is how many cards a group takes for its cards to be compared with each other.
	leastPeers = 2
	// clockStep is what a common clock is rounded to, in MHz.
	clockStep = 50
	// clockDoubt is by how much β may be off, as far as a card's clock is from the common one: a card that is throttled to half its
	// clock is brought to the common one by a long way.
	clockDoubt = 0.05
	// elasticitySpread is the least standard error of a case's β in one process that is believed.
	elasticitySpread = 0.02
)

// model is all processes on cards of one model.
type model struct {
	name      string
	processes []*process
	cardOf    []int // by process
	cards     []modelCard
	hosts     []string
	groups    []modelGroup
	clock     float64 // log of the common clock in MHz, 0 where clocks are not known
	cases     []caseKey
	first     int64 // microseconds since 1970, of the fleet's first sample

	// The values of all cases, process by process: those of process i are start[i] to start[i+1].
	start             []int
	caseOf            []int32
	common, sustained []float64 // logs of microseconds; NaN for none
	byCase            []int32   // all values, ordered by case
	caseStart         []int
	betas             []float64 // by case
	sustainedOf       results.Phase
	clocked           bool
}

// modelCard is one card.
type modelCard struct {
	id        string
	host      int
	group     int
	processes []int
}

// modelGroup is cards with the same software and limits.
type modelGroup struct {
	factors []results.Factor
	cards   []int
	peers   int // the group with which its cards are compared
}

// newModels divides processes by the models of their cards. cases are the collector's.
func newModels(processes []*process, cases []caseKey, s Settings) []*model {
	var out []*model
	var first int64
	for _, p := range processes {
		if p.from > 0 && (first == 0 || p.from < first) {
			first = p.from
		}
	}
	for from := 0; from < len(processes); {
		to := from
		for to < len(processes) && processes[to].model == processes[from].model {
			to++
		}
		m := &model{name: processes[from].model, processes: processes[from:to], first: first}
		m.identify()
		m.take(cases)
		m.bring(s)
		out = append(out, m)
		from = to
	}
	return out
}

// identify finds the cards, hosts and groups.
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
		// What a card is and where it stands is what its last run says.
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

// signature tells groups apart.
func signature(factors []results.Factor) string {
	var b strings.Builder
	for _, f := range factors {
		b.WriteString(f.Name + "\x00" + f.Value + "\x00")
	}
	return b.String()
}

// take lists the values of all cases, and numbers cases anew: those that processes of this model have.
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

// compareCases orders cases as they are shown.
func compareCases(a, b caseKey) int {
	return cmp.Or(cmp.Compare(a.series.String(), b.series.String()), cmp.Compare(a.series.Threads, b.series.Threads), cmp.Compare(a.m, b.m))
}

// bring brings all times to the common clock, and picks what sustained time is.
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
	// How a case's time follows the clock is the same on all cards of a model, and better known from all of them.
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

// leastCases is how many cases a level of several takes.
const leastCases = 3

// hours is when a process ran, since the fleet's first sample.
func (m *model) hours(p int) float64 {
	x := m.processes[p]
	if x.from == 0 {
		return 0
	}
	return float64(x.from+(x.to-x.from)/2-m.first) / 3.6e9
}

// peersOf is the group with whose cards a process is compared.
func (m *model) peersOf(process int) int { return m.groups[m.cards[m.cardOf[process]].group].peers }

// fitted values: what a case takes in each group of peers, and how far each process and case lies above it.
type surface struct {
	centre [][]float64 // by group and case, logs of microseconds; NaN where no card of the group has it
	rest   []float64   // by value, above the centre; NaN for none
	levels []float64   // by process: the middle of its rest
}

const polishRounds = 4

// polish takes values apart into what each case takes and how far each process lies above it: a median polish, in which a card has
// one vote however often it was measured.
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
				s.levels[p] = middleHalf(middle)
			}
		}
	}
	return s
}

// levelOf is the middle of what a process lies above the centre in some cases; NaN where it has too few of them.
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
	return middleHalf(v)
}

// family is some of the cases of a model.
type family struct {
	name   string
	memory bool // those in which memory binds
	in     []bool
	cases  int
}

// families are the sets of cases that a card may be slow in: where memory binds, then kernels, then types of a kernel, then series. Those that
// hold nearly all cases, or too few, or the same as an earlier one are none.
func (m *model) families(common *surface) []family {
	var out []family
	add := func(name string, memory bool, in func(c int) bool) {
		f := family{name: name, memory: memory, in: make([]bool, len(m.cases))}
		for c := range m.cases {
			if f.in[c] = in(c); f.in[c] {
				f.cases++
			}
		}
		if f.cases < leastCases || len(m.cases)-f.cases < leastCases {
			return
		}
		for _, other := range out {
			if slices.Equal(other.in, f.in) {
				return
			}
		}
		out = append(out, f)
	}
	bound := m.memoryBound(common)
	add("cases in which memory binds", true, func(c int) bool { return bound[c] })
	for _, name := range []func(results.SeriesKey) string{
		func(k results.SeriesKey) string { return k.Kernel },
		func(k results.SeriesKey) string { return k.Kernel + " " + k.Operation.String() + " " + string(k.DType) },
		func(k results.SeriesKey) string { return strings.TrimPrefix(k.Text(), "/") },
	} {
		var names []string
		of := make([]string, len(m.cases))
		for c, key := range m.cases {
			of[c] = name(key.series)
			if !slices.Contains(names, of[c]) && len(names) < mostFamilies {
				names = append(names, of[c])
			}
		}
		for _, n := range names {
			add(n, false, func(c int) bool { return of[c] == n })
		}
	}
	return out
}

// mostFamilies bounds the names of one kind that are looked at each by itself.
const mostFamilies = 64

// memoryBound says in which cases memory binds: those that are nearer to the highest rate of bytes that any case of the model
// reaches than to the highest rate of arithmetic of their data type.
func (m *model) memoryBound(s *surface) []bool {
	bytes, flops := nans(len(m.cases)), nans(len(m.cases))
	most, mostFlops := math.Inf(-1), map[string]float64{}
	for c, key := range m.cases {
		for g := range s.centre {
			if us := s.centre[g][c]; us == us {
				bytes[c] = math.Log(key.series.Bytes(key.m)) - us
				flops[c] = math.Log(key.series.FLOPs(key.m)) - us
				break
			}
		}
		if bytes[c] == bytes[c] {
			most = math.Max(most, bytes[c])
			kind := string(key.series.DType)
			if top, ok := mostFlops[kind]; !ok || flops[c] > top {
				mostFlops[kind] = flops[c]
			}
		}
	}
	out := make([]bool, len(m.cases))
	for c, key := range m.cases {
		out[c] = bytes[c]-most > flops[c]-mostFlops[string(key.series.DType)]
	}
	return out
}
