package fleet

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
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
		if f := s.fit(s.knots(segments)); f.cost < best.cost {
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
}

func newSeparation(levels []level, cards, sets int, before belief) *separation {
	s := &separation{before: before, levels: levels, cards: cards, sets: sets, of: make([][]int, cards)}
	for i, l := range levels {
		if math.IsNaN(l.y) || math.IsInf(l.y, 0) {
			continue
		}
		s.used = append(s.used, i)
		if len(s.of[l.card]) == 0 {
			s.present = append(s.present, l.card)
		}
		s.of[l.card] = append(s.of[l.card], i)
	}
	slices.Sort(s.present)
	return s
}

func (s *separation) span() (first, last float64) {
	first, last = math.Inf(1), math.Inf(-1)
	for _, i := range s.used {
		first, last = math.Min(first, s.levels[i].hours), math.Max(last, s.levels[i].hours)
	}
	return first, last
}

// knots are the ends of segments, so that each has as many processes.
func (s *separation) knots(segments int) []float64 {
	var t []float64
	for _, i := range s.used {
		t = append(t, s.levels[i].hours)
	}
	slices.Sort(t)
	var out []float64
	for k := 0; k <= segments; k++ {
		at := t[k*(len(t)-1)/segments]
		if len(out) == 0 || at > out[len(out)-1] {
			out = append(out, at)
		}
	}
	return out
}

// line is a continuous line of straight pieces between knots, by its slopes.
type line struct {
	knots, slopes []float64
}

// terms are what the slopes are multiplied with at a time.
func terms(knots []float64, hours float64, to []float64) []float64 {
	to = to[:0]
	for k := 0; k+1 < len(knots); k++ {
		to = append(to, math.Max(0, math.Min(hours, knots[k+1])-knots[k]))
	}
	return to
}

func (l line) at(hours float64) float64 {
	sum := 0.0
	for k, x := range terms(l.knots, hours, nil) {
		sum += l.slopes[k] * x
	}
	return sum
}

// fitted is one fit of a fleet's drift.
type fitted struct {
	line    line
	cost    float64   // Bayesian information criterion: smaller is better
	centre  []float64 // by set of peers, without the line: the mean of its peers
	peers   []float64 // by set, how many cards stand for the others
	means   []float64 // by card, without the line; NaN where it has none
	peer    []bool    // by card: it may stand for the others
	process float64   // variance between processes
	freedom float64   // of it
	stray   []bool    // by level
	between float64   // variance between cards that are peers
}

const fitRounds = 4

// fit fits a line with given knots: generalised least squares, in which differences between processes on one card tell as
// much of the line as they scatter less than cards do. Cards and processes that lie apart have no say.
func (s *separation) fit(knots []float64) *fitted {
	f := &fitted{line: line{knots: knots, slopes: make([]float64, max(0, len(knots)-1))}, peer: make([]bool, s.cards), stray: make([]bool, len(s.levels))}
	for _, c := range s.present {
		f.peer[c] = true
	}
	f.process, f.between = usualProcesses*usualProcesses, s.before.usual*s.before.usual
	for range fitRounds {
		if len(f.line.slopes) > 0 {
			s.slopes(f)
		}
		s.spread(f)
		if len(f.line.slopes) == 0 && f.freedom == 0 {
			break
		}
	}
	f.cost = s.cost(f)
	return f
}

// slopes fits the slopes, given the variances and who has a say.
func (s *separation) slopes(f *fitted) {
	k := len(f.line.slopes)
	normal, right := mat.NewSymDense(k, nil), mat.NewVecDense(k, nil)
	add := func(x []float64, y, weight float64) {
		for a := range k {
			right.SetVec(a, right.AtVec(a)+weight*x[a]*y)
			for b := a; b < k; b++ {
				normal.SetSym(a, b, normal.At(a, b)+weight*x[a]*x[b])
			}
		}
	}
	type cardMean struct {
		set       int
		x         []float64
		y, weight float64
	}
	var means []cardMean
	sumW := make([]float64, s.sets)
	sumX, sumY := make([][]float64, s.sets), make([]float64, s.sets)
	for i := range sumX {
		sumX[i] = make([]float64, k)
	}
	var x []float64
	diff := make([]float64, k)
	for _, c := range s.present {
		m := cardMean{x: make([]float64, k)}
		n := 0.0
		for _, i := range s.of[c] {
			if f.stray[i] {
				continue
			}
			l := s.levels[i]
			m.set = l.peers
			x = terms(f.line.knots, l.hours, x)
			for a := range k {
				m.x[a] += x[a]
			}
			m.y, n = m.y+l.y, n+1
		}
		if n == 0 {
			continue
		}
		for a := range k {
			m.x[a] /= n
		}
		m.y /= n
		for _, i := range s.of[c] {
			if f.stray[i] {
				continue
			}
			x = terms(f.line.knots, s.levels[i].hours, x)
			for a := range k {
				diff[a] = x[a] - m.x[a]
			}
			add(diff, s.levels[i].y-m.y, 1/f.process)
		}
		if f.peer[c] {
			m.weight = 1 / (f.between + f.process/n)
			means = append(means, m)
			sumW[m.set] += m.weight
			sumY[m.set] += m.weight * m.y
			for a := range k {
				sumX[m.set][a] += m.weight * m.x[a]
			}
		}
	}
	for _, m := range means {
		for a := range k {
			diff[a] = m.x[a] - sumX[m.set][a]/sumW[m.set]
		}
		add(diff, m.y-sumY[m.set]/sumW[m.set], m.weight)
	}
	// A piece in which nothing is told by any card is flat.
	for a := range k {
		normal.SetSym(a, a, normal.At(a, a)*(1+1e-9)+1e-9)
	}
	var chol mat.Cholesky
	if !chol.Factorize(normal) {
		return
	}
	var b mat.VecDense
	if chol.SolveVecTo(&b, right) != nil {
		return
	}
	for a := range k {
		f.line.slopes[a] = b.AtVec(a)
	}
}

// spread fills in what is left beside the line: the means of cards, which of them lie apart, and the variances.
func (s *separation) spread(f *fitted) {
	f.means, f.centre = nans(s.cards), nans(s.sets)
	bySet := make([][]float64, s.sets)
	rest := func(i int) float64 { return s.levels[i].y - f.line.at(s.levels[i].hours) }
	var within []float64
	for _, c := range s.present {
		v := make([]float64, 0, len(s.of[c]))
		for _, i := range s.of[c] {
			v = append(v, rest(i))
		}
		m := median(v)
		f.means[c] = m
		if len(v) > 1 {
			// The distances of n values from their own median are too small by about this.
			grown := math.Sqrt(float64(len(v)) / float64(len(v)-1))
			for _, x := range v {
				if x != m || len(v)%2 == 0 {
					within = append(within, math.Abs(x-m)*grown)
				}
			}
		}
	}
	apart := math.Inf(1)
	if len(within) > 0 {
		apart = strayProcess * math.Max(1.4826*median(within), usualProcesses)
	}
	var squares float64
	f.freedom = 0
	for _, c := range s.present {
		var v []float64
		for _, i := range s.of[c] {
			f.stray[i] = len(s.of[c]) > 2 && math.Abs(rest(i)-f.means[c]) > apart
			if !f.stray[i] {
				v = append(v, rest(i))
			}
		}
		if len(v) == 0 {
			continue
		}
		m := mean(v)
		f.means[c] = m
		if len(v) > 1 && f.peer[c] {
			for _, x := range v {
				squares += (x - m) * (x - m)
			}
			f.freedom += float64(len(v) - 1)
		}
		set := s.levels[s.of[c][0]].peers
		bySet[set] = append(bySet[set], m)
	}
	f.process = math.Max((squares+priorProcesses*usualProcesses*usualProcesses)/(f.freedom+priorProcesses), leastDeviation*leastDeviation)
	for set, v := range bySet {
		if len(v) > 0 {
			f.centre[set] = median(v)
		}
	}
	var about []float64
	for _, c := range s.present {
		about = append(about, f.means[c]-f.centre[s.levels[s.of[c][0]].peers])
	}
	for i, far := range outliers(about) {
		f.peer[s.present[i]] = !far
	}
	f.between, _ = s.before.steadied(s.between(f))
	f.between = math.Max(f.between-f.process*s.meanInverse(f), leastDeviation*leastDeviation)
}

// steadied is a variance of so many degrees of freedom together with what is believed beforehand. That counts for less the more the
// cards contradict it: cards that scatter more than usual are taken at their word.
func (b belief) steadied(squares, freedom float64) (variance, all float64) {
	usual, prior := b.usual*b.usual, b.weight
	if freedom > 0 {
		ratio := math.Min(1, usual*freedom/squares)
		prior *= ratio * ratio
	}
	return (squares + prior*usual) / (freedom + prior), freedom + prior
}

// between is the sum of squares of the means of peers about the centres of their sets, with its degrees of freedom. The centres
// are set to those means.
func (s *separation) between(f *fitted) (squares, freedom float64) {
	f.peers = make([]float64, s.sets)
	sums := make([]float64, s.sets)
	for _, c := range s.present {
		if f.peer[c] {
			set := s.levels[s.of[c][0]].peers
			f.peers[set]++
			sums[set] += f.means[c]
		}
	}
	for set, n := range f.peers {
		if n > 0 {
			f.centre[set] = sums[set] / n
			freedom += n - 1
		}
	}
	for _, c := range s.present {
		if f.peer[c] {
			x := f.means[c] - f.centre[s.levels[s.of[c][0]].peers]
			squares += x * x
		}
	}
	return squares, freedom
}

// meanInverse is the mean of one over the number of processes of peers.
func (s *separation) meanInverse(f *fitted) float64 {
	sum, n := 0.0, 0.0
	for _, c := range s.present {
		if f.peer[c] {
			sum, n = sum+1/float64(s.kept(f, c)), n+1
		}
	}
	if n == 0 {
		return 1
	}
	return sum / n
}

// kept counts the processes of a card that are no strays; at least 1.
func (s *separation) kept(f *fitted, card int) int {
	n := 0
	for _, i := range s.of[card] {
		if !f.stray[i] {
			n++
		}
	}
	return max(1, n)
}

// cost is the information criterion of a fit. What lies apart costs as much as what lies at the bound, so that a line gains
// nothing by leaving out cards.
func (s *separation) cost(f *fitted) float64 {
	const bound = 9
	sum, rows := 0.0, 0.0
	for _, c := range s.present {
		n := float64(s.kept(f, c))
		v := f.between + f.process/n
		x := f.means[c] - f.centre[s.levels[s.of[c][0]].peers]
		sum += math.Min(x*x/v, bound) + math.Log(v)
		rows++
		for _, i := range s.of[c] {
			r := s.levels[i].y - f.line.at(s.levels[i].hours) - f.means[c]
			sum += math.Min(r*r/f.process, bound)
		}
		sum += (n - 1) * math.Log(f.process)
		rows += n - 1
	}
	return sum + float64(len(f.line.slopes))*math.Log(rows)
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

// without is what between says without a card that is a peer, by taking it out of what it says of all.
func (s *separation) without(f *fitted, card int, all, freedom float64) (float64, float64) {
	set := s.levels[s.of[card][0]].peers
	n := f.peers[set]
	if n < 2 {
		return all, freedom
	}
	x := f.means[card] - f.centre[set] // the centre is the mean of the set's peers
	return math.Max(0, all-x*x*n/(n-1)), freedom - 1
}

func (s *separation) middleHour() float64 {
	var t []float64
	for _, i := range s.used {
		t = append(t, s.levels[i].hours)
	}
	return median(t)
}
