package sweep

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// paceFactor is how far the times of the two neighbours of an M may be apart for a time
// between them to be foretold: then it is hardly off by as much, and its block at worst half
// or twice as long as it is meant to be.
const paceFactor = 2

// pace is how long single executions take, by M of a series.
type pace struct {
	ms      []int // ascending
	seconds []float64
}

// paces are those of series, as far as they were measured.
type paces map[results.SeriesKey]*pace

// learn takes in what one execution of a case takes. Splits and padded products are made of
// others.
func (p paces) learn(c results.Case, seconds float64) {
	if len(c.Parts) > 0 || c.PadTo > 0 || !(seconds > 0) {
		return
	}
	of := p[c.SeriesKey]
	if of == nil {
		of = &pace{}
		p[c.SeriesKey] = of
	}
	at, known := slices.BinarySearch(of.ms, c.M)
	if known {
		of.seconds[at] = seconds
		return
	}
	of.ms, of.seconds = slices.Insert(of.ms, at, c.M), slices.Insert(of.seconds, at, seconds)
}

// foretell is how long one execution of a case takes, all its parts; false where what was
// measured does not tell.
func (p paces) foretell(c results.Case) (seconds float64, ok bool) {
	of := p[c.SeriesKey]
	if of == nil {
		return 0, false
	}
	for _, m := range ms(c) {
		t, ok := of.at(m)
		if !ok {
			return 0, false
		}
		seconds += t
	}
	return seconds, true
}

// at is the time of an M, between those of its neighbours along a power of M.
func (p *pace) at(m int) (seconds float64, ok bool) {
	at, known := slices.BinarySearchFunc(p.ms, m, cmp.Compare[int])
	if known {
		return p.seconds[at], true
	}
	if at == 0 || at == len(p.ms) {
		return 0, false
	}
	lo, hi := p.seconds[at-1], p.seconds[at]
	if max(lo, hi) > paceFactor*min(lo, hi) {
		return 0, false
	}
	share := math.Log(float64(m)/float64(p.ms[at-1])) / math.Log(float64(p.ms[at])/float64(p.ms[at-1]))
	return lo * math.Pow(hi/lo, share), true
}
