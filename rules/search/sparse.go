package search

import (
	"math"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// sparseSearch tries the sums of every M, largest part first, and prunes by a bound: the rest costs at least
// its size times the least cost per row of any part. The largest of k parts of r is at least r/k, which
// leaves few parts on a geometric grid. Its memory is the grid and the splits found.
//
// The number of sums has no useful bound in general, so the search of each M ends after a number of steps;
// see [Partition.Cut].
type sparseSearch struct {
	row  []int32 // position in ms
	size []int
	cost []float64
	// rate is the least cost per row, lowered by more than its rounding.
	rate  float64
	steps int // for each M
	// found[k][i] are the parts of the cheapest split of ms[i] in exactly k.
	found [][][]int32
}

// sparseSteps limits the steps of a search in all: some seconds of two cores.
const sparseSteps = 1 << 31

func (s *sparseSearch) search(p *Partition, cost []float64) {
	maxParts := len(p.least) - 1
	p.ways, s.rate, s.found = s, math.Inf(1), make([][][]int32, maxParts+1)
	for i, c := range cost {
		if c < math.Inf(1) {
			s.row, s.size, s.cost = append(s.row, int32(i)), append(s.size, p.ms[i]), append(s.cost, c)
			s.rate = min(s.rate, c/float64(p.ms[i])*(1-1e-9))
		}
	}
	if len(s.size) == 0 {
		return
	}
	for k := range s.found {
		s.found[k] = make([][]int32, len(p.ms))
	}
	var cut atomic.Bool
	stats.InBlocks(len(p.ms), func(from, to int) {
		for i := from; i < to; i++ {
			t := sparseTarget{sparseSearch: s, left: s.steps}
			for k := 2; k <= maxParts; k++ {
				t.found, t.best = false, p.least[k-1][i]
				t.prefix = t.prefix[:0]
				t.try(p.ms[i], k, len(s.size)-1, 0)
				if p.least[k][i] = t.best; t.found {
					s.found[k][i] = slices.Clone(t.parts)
				}
			}
			if t.cut {
				cut.Store(true)
			}
		}
	})
	p.Cut = cut.Load()
}

func (s *sparseSearch) way(i, k int) []int32 { return s.found[k][i] }

type sparseTarget struct {
	*sparseSearch
	left   int     // steps
	cut    bool    // the steps ran out
	best   float64 // the least cost so far
	found  bool    // best has the number of parts that is being tried
	parts  []int32 // its parts, descending
	prefix []int32 // the parts being tried, as positions in size
}

func (t *sparseTarget) hopeless(cost float64) bool {
	if t.found {
		return cost > t.best*(1+tied) // a tie may have a smaller first part
	}
	return cost >= t.best*(1-tied)
}

// try writes r as a sum of k parts up to the part at high; the parts before cost spent.
func (t *sparseTarget) try(r, k, high int, spent float64) {
	// The largest part leaves at least k-1 times the smallest part.
	b := min(high, sort.Search(len(t.size), func(j int) bool { return t.size[j] > r-(k-1)*t.size[0] })-1)
	if k == 2 {
		t.pair(r, b, spent)
		return
	}
	for ; b >= 0 && t.size[b]*k >= r; b-- {
		if t.left <= 0 {
			t.cut = true
			return
		}
		t.left--
		cost := spent + t.cost[b]
		if t.hopeless(cost + t.rate*float64(r-t.size[b])) {
			continue
		}
		t.prefix = append(t.prefix, int32(b))
		t.try(r-t.size[b], k-1, b, cost)
		t.prefix = t.prefix[:len(t.prefix)-1]
	}
}

// pair writes r as a sum of two parts, the larger at most that at b.
func (t *sparseTarget) pair(r, b int, spent float64) {
	for a := 0; a <= b; t.left-- {
		switch sum := t.size[a] + t.size[b]; {
		case sum < r:
			a++
		case sum > r:
			b--
		default:
			t.accept(a, b, spent+(t.cost[a]+t.cost[b]))
			a++
			b--
		}
	}
}

func (t *sparseTarget) accept(a, b int, cost float64) {
	if t.hopeless(cost) {
		return
	}
	smallest := t.row[a]
	if t.found && cost >= t.best*(1-tied) && smallest >= t.parts[len(t.parts)-1] {
		return
	}
	t.found, t.best = true, cost
	t.parts = t.parts[:0]
	for _, j := range t.prefix {
		t.parts = append(t.parts, t.row[j])
	}
	t.parts = append(t.parts, t.row[b], smallest)
}
