package fleet

import (
	"math"
)

// The shares of the level per question. The largest goes to the question that detects most slow cards,
// because small fleets have few peers.
const (
	commonShare    = 0.8
	sustainedShare = 0.13
	memoryShare    = 0.03
	familyShare    = 0.03
	linkShare      = 0.01
	// earlierShare is for the comparison with a baseline: half for each kind of time.
	earlierShare = 0.3
)

// clockNear is how far a clock may be from the common one without extra doubt, in logs.
const clockNear = 0.02

type question struct {
	share     float64
	sustained bool
	family    int // index into families, -1 for all cases
	link      bool
	earlier   bool
	effects   *effects
}

// answers holds all questions on a model and their inputs.
type answers struct {
	*model
	common, sustainedS *surface
	families           []family
	whole              effectsOf // of all cases
	questions          []question
	sets               []int
	setCount           int
	modes              []*Modes // by set of peers; nil for none
	slower             []bool
	changes            []*change
	used               []bool // by process: it belongs to its card's present level and is not lonely
	lonely             []bool // by process: no peer was measured near it in time
	ofFamily           map[int]*effects
	earlier            *earlier
}

type effectsOf struct{ common, sustained *effects }

func (m *model) ask(s Settings, b *Baseline) *answers {
	a := &answers{model: m, common: m.polish(m.common), sustainedS: m.polish(m.sustained), ofFamily: map[int]*effects{},
		sets: make([]int, len(m.cards)), setCount: len(m.groups), modes: make([]*Modes, len(m.groups)), slower: make([]bool, len(m.cards)),
		changes: make([]*change, len(m.cards)), used: make([]bool, len(m.processes))}
	for c := range m.cards {
		a.sets[c] = m.groups[m.cards[c].group].peers
	}
	a.lonely = m.lone()
	for p := range a.used {
		a.used[p] = !a.lonely[p]
	}
	a.families = m.families(a.common)
	a.askWhole()
	if a.divide() {
		a.askWhole()
	}
	if a.findChanges() {
		a.askWhole()
	}
	share := 1.0
	if b != nil {
		if a.earlier = m.compareEarlier(b, a.used); a.earlier != nil {
			share -= earlierShare
			a.questions = append(a.questions, question{share: earlierShare / 2, family: -1, earlier: true, effects: a.earlier.common},
				question{share: earlierShare / 2, family: -1, earlier: true, sustained: true, effects: a.earlier.sustained})
		}
	}
	if m.clocked || a.sustainedOf != "sweep" {
		a.questions = append(a.questions, question{share: share * commonShare, family: -1, effects: a.whole.common},
			question{share: share * sustainedShare, family: -1, sustained: true, effects: a.whole.sustained})
	} else { // both are the same times
		a.questions = append(a.questions, question{share: share * (commonShare + sustainedShare), family: -1, effects: a.whole.common})
	}
	a.questions = append(a.questions, question{share: share * linkShare, family: -1, link: true, effects: a.askLink()})
	others := 0
	for _, f := range a.families {
		if !f.memory {
			others++
		}
	}
	for i, f := range a.families {
		q := question{share: share * memoryShare, family: i, effects: a.contrast(i)}
		if !f.memory {
			q.share = share * familyShare / float64(others)
		}
		a.questions = append(a.questions, q)
	}
	return a
}

func (a *answers) levelsOf(of func(process int) float64) []level {
	out, lone := make([]level, len(a.processes)), a.apart()
	for p := range a.processes {
		c := a.cardOf[p]
		out[p] = level{card: c, peers: a.sets[c], host: a.cards[c].host, hours: a.hours(p), y: math.NaN(), lone: lone[p]}
		if a.used[p] {
			out[p].y = of(p)
		}
	}
	return out
}

// doubtful adds the uncertainty of the clock correction.
func (a *answers) doubtful(levels []level) []level {
	if !a.clocked {
		return levels
	}
	for c := range a.cards {
		off := 0.0
		for _, p := range a.cards[c].processes {
			cases, sum := a.processes[p].cases, 0.0
			for i := range cases {
				sum += float64(cases[i].clock)
			}
			if len(cases) > 0 {
				off = math.Max(off, math.Abs(sum/float64(len(cases))-a.clock))
			}
		}
		for _, p := range a.cards[c].processes {
			levels[p].doubt = clockDoubt * math.Max(0, off-clockNear)
		}
	}
	return levels
}

func every(int32) bool { return true }

func (a *answers) askWhole() {
	a.whole.common = a.separateCommon(func(p int) float64 { return a.levelOf(a.common, p, every, 1) })
	a.whole.sustained = separate(a.levelsOf(func(p int) float64 { return a.levelOf(a.sustainedS, p, every, 1) }), len(a.cards), a.setCount,
		ofSustained)
}

// separateCommon splits levels at the common clock, given by process.
func (a *answers) separateCommon(of func(process int) float64) *effects {
	return separate(a.doubtful(a.levelsOf(of)), len(a.cards), a.setCount, ofCommon)
}

// familyLevel is a process's level at the common clock in a family, or in all other cases.
func (a *answers) familyLevel(process, family int, inside bool) float64 {
	in := a.families[family].in
	return a.levelOf(a.common, process, func(c int32) bool { return in[c] == inside }, leastCases)
}

// contrast is a card's distance above its peers in a family minus that in all other cases.
func (a *answers) contrast(i int) *effects {
	return a.separateCommon(func(p int) float64 { return a.familyLevel(p, i, true) - a.familyLevel(p, i, false) })
}

func (a *answers) inFamily(i int) *effects {
	if a.ofFamily[i] == nil {
		a.ofFamily[i] = a.separateCommon(func(p int) float64 { return a.familyLevel(p, i, true) })
	}
	return a.ofFamily[i]
}

// outside is a card's distance above its peers in the cases outside a family.
func (a *answers) outside(i, card int) float64 {
	var v []float64
	for _, p := range a.cards[card].processes {
		if x := a.familyLevel(p, i, false); a.used[p] && x == x {
			v = append(v, x)
		}
	}
	return median(v)
}

const leastLink = 0.1

// askLink compares the rates of copies from the host, as times.
func (a *answers) askLink() *effects {
	return separate(a.levelsOf(func(p int) float64 {
		if rate := a.processes[p].conditions.LinkBandwidth; rate > 0 {
			return -math.Log(rate)
		}
		return math.NaN()
	}), len(a.cards), a.setCount, ofLink)
}

// pValue is a card's p-value over all questions, and the most significant question.
func (a *answers) pValue(card int) (p float64, best int) {
	p, best = 1, -1
	for i, q := range a.questions {
		if x := q.effects.cards[card]; x.known {
			if weighed := x.p / q.share; weighed < p {
				p, best = weighed, i
			}
		}
	}
	return p, best
}
