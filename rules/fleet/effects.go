package fleet

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Priors on cards, weighted as degrees of freedom. Seven peers alone give a deviation to 27 %; with 500 cards
// the prior hardly counts.
const (
	// Standard deviations of log times at a common clock, between cards of one model and between processes on
	// one card: a few tenths of a percent on data-center cards.
	usualCards, usualProcesses = 0.0035, 0.002
	priorCards, priorProcesses = 12, 2
	// usualSustained is between cards in sustained time, which includes differences in clock.
	usualSustained, priorSustained = 0.006, 6
	// Other host load affects copies from the host.
	usualLink      = 0.03
	leastDeviation = 0.0003
	// A process beyond strayProcess standard deviations is ignored.
	strayProcess    = 4
	mostSegments    = 8
	unitsPerSegment = 6
)

type level struct {
	card, peers, host int
	hours             float64
	y                 float64
	doubt             float64 // a standard error that all processes of the card share
	// lone is true if no other process of its peers shares a case. Its distance from the center is then zero
	// by construction.
	lone bool
}

// effects are levels split into a drift line of the fleet, the cards, and the processes on them.
type effects struct {
	cards []effect // by card
	// rest is each level's distance above the center of its peers at its time.
	rest []float64
	// stray is each ignored level's distance above its card's level; NaN for all others.
	stray []float64
	parts Components
	drift []DriftPoint
	// centre is the common level of each set of peers at the median time.
	centre []float64
}

type effect struct {
	known bool
	dev   float64 // log of its level over the peers' center
	se    float64 // standard error of dev: variation of processes, and of the center
	df    float64
	p     float64
	n     int // processes
	peers int
}

// belief is a prior standard deviation between cards, with its weight in degrees of freedom.
type belief struct{ usual, weight float64 }

var (
	ofCommon    = belief{usualCards, priorCards}
	ofSustained = belief{usualSustained, priorSustained}
	ofLink      = belief{usualLink, priorSustained}
)

// separate skips NaN levels. sets is the number of sets of peers.
func separate(levels []level, cards, sets int, before belief) *effects {
	s := newSeparation(levels, cards, sets, before)
	if len(s.used) == 0 {
		return &effects{cards: make([]effect, cards), rest: nans(len(levels)), stray: nans(len(levels)), centre: nans(sets)}
	}
	best := s.fit(nil)
	first, last := s.span()
	for segments := 1; segments <= mostSegments && segments*unitsPerSegment <= len(s.used) && last > first; segments *= 2 {
		knots := s.knots(segments)
		if !s.carried(knots) {
			continue // a single unit's fault would count as the fleet's drift
		}
		if f := s.fit(knots); f.cost < best.cost {
			best = f
		}
	}
	return s.result(best)
}

func nans(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = math.NaN()
	}
	return v
}

type separation struct {
	before  belief
	levels  []level
	cards   int
	sets    int
	used    []int // indices of levels that are numbers
	of      [][]int
	present []int
	hosts   bool
}

// unit is the host of a level, or its card if there is one host.
func (s *separation) unit(level int) int {
	if s.hosts {
		return s.levels[level].host
	}
	return s.levels[level].card
}

func newSeparation(levels []level, cards, sets int, before belief) *separation {
	s := &separation{before: before, levels: levels, cards: cards, sets: sets, of: make([][]int, cards)}
	for i, l := range levels {
		if math.IsNaN(l.y) || math.IsInf(l.y, 0) {
			continue
		}
		s.hosts = s.hosts || len(s.used) > 0 && levels[s.used[0]].host != l.host
		s.used = append(s.used, i)
		if len(s.of[l.card]) == 0 {
			s.present = append(s.present, l.card)
		}
		s.of[l.card] = append(s.of[l.card], i)
	}
	slices.Sort(s.present)
	return s
}

func (s *separation) result(f *fitted) *effects {
	e := &effects{cards: make([]effect, s.cards), rest: nans(len(s.levels)), stray: nans(len(s.levels)), centre: f.centre}
	for _, i := range s.used {
		l := s.levels[i]
		e.rest[i] = l.y - f.line.at(l.hours) - f.centre[l.peers]
		if f.stray[i] {
			e.stray[i] = l.y - f.line.at(l.hours) - f.means[l.card]
		}
	}
	inverse := s.meanInverse(f)
	all, allN := s.between(f)
	for _, c := range s.present {
		set := s.levels[s.of[c][0]].peers
		n, sum := f.peers[set], f.peers[set]*f.centre[set]
		squares, freedom := all, allN
		if f.peer[c] {
			n, sum = n-1, sum-f.means[c]
			squares, freedom = s.without(f, c, all, allN)
		}
		variance, freedom := s.before.steadied(squares, freedom)
		if n < 1 || math.IsNaN(f.centre[set]) {
			continue
		}
		own := float64(s.kept(f, c))
		doubt := s.levels[s.of[c][0]].doubt
		x := effect{known: true, dev: f.means[c] - sum/n, n: len(s.of[c]), peers: int(n), df: freedom}
		spread := math.Max(variance+f.process*(1/own-inverse), f.process/own)
		t := x.dev / math.Sqrt(math.Max(spread+variance/n, leastDeviation*leastDeviation)+doubt*doubt)
		x.p = stats.UpperP(t, freedom)
		x.se = math.Sqrt(f.process/own + variance/n + doubt*doubt)
		e.cards[c] = x
	}
	e.parts = s.components(f)
	if len(f.line.slopes) > 0 {
		middle := f.line.at(s.middleHour())
		for _, hours := range f.line.knots {
			e.drift = append(e.drift, DriftPoint{Hours: hours, Ratio: stats.Exp(f.line.at(hours) - middle)})
		}
	}
	return e
}
