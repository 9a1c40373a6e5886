package fleet

import (
	"math"
)

// What each question gets of the level. Most goes to the one that nearly every slow card answers: cards in a fleet of eight have few peers
// to be told from.
const (
	commonShare    = 0.8
	sustainedShare = 0.13
	memoryShare    = 0.03
	familyShare    = 0.03
	linkShare      = 0.01
	// earlierShare is what the comparison with a baseline gets of all, where there is one: half for each kind of time.
	earlierShare = 0.3
)

// clockNear is how far a clock may lie from the common one without doubt, in logs.
const clockNear = 0.02

// question is one way in which a card may be slow.
type question struct {
	share     float64
	sustained bool
	family    int // index into families, -1 for all cases
	link      bool
	earlier   bool
	effects   *effects
}

// answers are all questions on a model, with what they rest on.
type answers struct {
	*model
	common, sustainedS *surface
	families           []family
	whole              effectsOf // of all cases
	questions          []question
	sets               []int // by card: the set of cards that it is compared with
	setCount           int
	modes              []*Modes // by set of peers; nil for none
	slower             []bool   // by card: of the slower mode
	changes            []*change
	used               []bool // by process: it is of the present level of its card, and not lonely
	lonely             []bool // by process: no peer was measured near it in time
	ofFamily           map[int]*effects
	earlier            *earlier
}

// effectsOf are the effects of both kinds of time.
type effectsOf struct{ common, sustained *effects }

// ask asks all questions.
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

// levelsOf makes levels of what is known of processes.
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

// doubtful adds to levels at the common clock what is not known of how times follow the clock.
func (a *answers) doubtful(levels []level) []level {
	if !a.clocked {
		return levels
	}
	for c := range a.cards {
		off := 0.0
		for _, p := range a.cards[c].processes {
			mean, n := 0.0, 0
			for i := range a.model.processes[p].cases {
				mean, n = mean+float64(a.model.processes[p].cases[i].clock), n+1
			}
			if n > 0 {
				off = math.Max(off, math.Abs(mean/float64(n)-a.clock))
			}
		}
		for _, p := range a.cards[c].processes {
			levels[p].doubt = clockDoubt * math.Max(0, off-clockNear)
		}
	}
	return levels
}

func every(int32) bool { return true }

// askWhole takes the levels of all cases apart.
func (a *answers) askWhole() {
	common := a.doubtful(a.levelsOf(func(p int) float64 { return a.levelOf(a.common, p, every, 1) }))
	a.whole.common = separate(common, len(a.cards), a.setCount, ofCommon)
	a.whole.sustained = separate(a.levelsOf(func(p int) float64 { return a.levelOf(a.sustainedS, p, every, 1) }), len(a.cards), a.setCount, ofSustained)
}

// contrast is how much more a card lies above its peers in a family than in all other cases, at the common clock.
func (a *answers) contrast(i int) *effects {
	in := a.families[i].in
	return separate(a.doubtful(a.levelsOf(func(p int) float64 {
		return a.levelOf(a.common, p, func(c int32) bool { return in[c] }, leastCases) - a.levelOf(a.common, p, func(c int32) bool { return !in[c] }, leastCases)
	})), len(a.cards), a.setCount, ofCommon)
}

// inFamily is how a card stands in a family by itself.
func (a *answers) inFamily(i int) *effects {
	if e, ok := a.ofFamily[i]; ok {
		return e
	}
	in := a.families[i].in
	e := separate(a.doubtful(a.levelsOf(func(p int) float64 { return a.levelOf(a.common, p, func(c int32) bool { return in[c] }, leastCases) })), len(a.cards), a.setCount, ofCommon)
	a.ofFamily[i] = e
	return e
}

// outside is how much a card lies above its peers in the cases that are not of a family.
func (a *answers) outside(i, card int) float64 {
	in := a.families[i].in
	var v []float64
	for _, p := range a.cards[card].processes {
		if a.used[p] {
			if x := a.levelOf(a.common, p, func(c int32) bool { return !in[c] }, leastCases); x == x {
				v = append(v, x)
			}
		}
	}
	return median(v)
}

// leastLink is the least loss of a link that is named: one with half of its lanes loses 100 %.
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

// pValue is a card's p-value over all questions, and the question that tells most.
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
