package fleet

import (
	"math"
	"slices"
)

// What is believed of cards before a fleet tells. It weighs as much as so many degrees of freedom: of eight cards seven peers
// tell a deviation to 27 % alone, of 500 the cards themselves say all.
const (
	// usualCards and usualProcesses are standard deviations of log times at a common clock, between cards of one model and
	// between processes on one card: a few tenths of a per cent on cards of data centres.
	usualCards, usualProcesses = 0.0035, 0.002
	// priorCards and priorProcesses are what they count for.
	priorCards, priorProcesses = 12, 2
	// usualSustained is between cards in sustained time, where the clocks that they reach differ too, and counts for priorSustained.
	usualSustained, priorSustained = 0.006, 6
	// usualLink is between cards in the time of copies from the host, which what else the host does touches.
	usualLink = 0.03
	// leastDeviation is the least standard deviation that is believed, as a share of the time.
	leastDeviation = 0.0003
	// strayProcess is from how many standard deviations between processes on a process has no say in them.
	strayProcess = 4
	// mostSegments bounds the pieces of the line that a fleet's drift is.
	mostSegments = 8
	// unitsPerSegment is how many processes a piece takes at least.
	unitsPerSegment = 6
)

// level is one number of one process: the log of a ratio.
type level struct {
	card, peers, host int // indices: the card, the set of cards that it is compared with, and its host
	hours             float64
	y                 float64
	doubt             float64 // a standard error that all processes of the card share
	// lone is set where no other process of its peers has one of its cases: it lies above the centre by nothing because it is the centre, and
	// tells nothing of how processes scatter.
	lone bool
}

// effects are levels taken apart: a line over time that the whole fleet has in common, the cards, and the processes on them.
type effects struct {
	cards []effect // by card
	// rest is, by level, what it lies above the centre of its peers at its time.
	rest []float64
	// stray is, by level, what one that has no say in its card's level lies above it; NaN for all others.
	stray []float64
	parts Components
	drift []DriftPoint
	// centre is the common level of each set of peers at the median time.
	centre []float64
}

// effect is one card beside its peers.
type effect struct {
	known bool
	dev   float64 // log of its level over the peers' centre
	se    float64 // of dev, as a measurement of this card: what processes scatter, and the centre
	df    float64
	p     float64 // that one of the peers lies as far above
	n     int     // processes
	peers int
}

// belief is a standard deviation between cards before anything is known, with the degrees of freedom that it counts for.
type belief struct{ usual, weight float64 }

var (
	ofCommon    = belief{usualCards, priorCards}
	ofSustained = belief{usualSustained, priorSustained}
	ofLink      = belief{usualLink, priorSustained}
)

// separate takes levels of n cards apart. sets is the number of sets of peers. Levels that are not numbers are left out.
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
			continue // one host's or card's trouble would be taken for the fleet's
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

// separation is levels made ready.
type separation struct {
	before  belief
	levels  []level
	cards   int
	sets    int
	used    []int   // indices of levels that are numbers
	of      [][]int // by card, of those
	present []int   // cards that have some
	hosts   bool    // there are several hosts
}

// unit is the host of a level, or its card where there is one host.
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

// result says of each card how it stands beside the others.
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
		if f.peer[c] { // it has no say in what it is held against
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
		x.p = upperP(t, freedom)
		x.se = math.Sqrt(f.process/own + variance/n + doubt*doubt)
		e.cards[c] = x
	}
	e.parts = s.components(f)
	if len(f.line.slopes) > 0 {
		middle := f.line.at(s.middleHour())
		for _, hours := range f.line.knots {
			e.drift = append(e.drift, DriftPoint{Hours: hours, Ratio: expo(f.line.at(hours) - middle)})
		}
	}
	return e
}
