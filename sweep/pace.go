package sweep

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// paceFactor is the maximum ratio of the times of two neighbors for interpolation. A block is then at worst
// half or twice as long as intended.
const paceFactor = 2

type pace struct {
	ms      []int // ascending
	seconds []float64
}

type paces map[results.SeriesKey]*pace

// learn skips splits and padded products, which are composed of others.
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

// foretell predicts the time of one execution of a case, if the measured times allow it.
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
