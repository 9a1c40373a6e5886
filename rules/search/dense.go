package search

import (
	"math"
	"slices"
	"sort"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// denseSearch is a dynamic program over all sums up to the largest M, in units of the greatest common divisor
// of all Ms.
//
// Let cost(a) be the cost of a part and L(k, s) the least cost of the sum s in at most k parts, L(1, s) =
// cost(s). The smallest of k parts of s is at most s/k, and the rest is a sum of k-1 parts, so
//
//	L(k, s) = min( L(k-1, s), min over parts a ≤ s/k of cost(a) + L(k-1, s-a) )
//
// The second term adds only sums that exist, and includes the first part of every optimal sum of k parts. A
// split of a measured M has at least two parts, so the first term excludes the M itself there. The search
// takes n·S/2·Σ1/k additions for n parts, sums up to S and every k ≥ 2; the last level is needed only for the
// measured Ms.
//
// Parts are skipped in blocks. All sums of a block of parts a with the rests s-a cost at least the cheapest
// part of the block plus the cheapest of all sums from the smallest rest on. Rounding keeps the order of
// sums: x ≤ x' and y ≤ y' give fl(x+y) ≤ fl(x'+y'). So a block whose bound is not below the current best
// contains no better part, and skipping it is safe.
type denseSearch struct {
	ms   []int
	unit int
	top  int // the largest sum, in units

	// The parts: the Ms of finite cost, ascending.
	row  []int32 // position in ms
	size []int   // in units
	cost []float64
	// small and large are the least cost in each block of parts.
	small, large []float64

	measured []int32 // by sum: the part of that size, or -1
	// first[k][i] is the smallest part of ms[i] in exactly k parts.
	first [][]int32
	// chain[k][s] is the smallest part of the sum s in at most k parts, -1 if fewer are as good.
	chain [][]int32
}

// The numbers of parts in a block of each kind.
const (
	smallBlock = 32
	largeBlock = 1024
)

func searchDense(p *Partition, cost []float64, unit int) {
	maxParts := len(p.least) - 1
	d := &denseSearch{ms: p.ms, unit: unit, top: p.ms[len(p.ms)-1] / unit,
		first: make([][]int32, maxParts+1), chain: make([][]int32, maxParts+1)}
	p.ways = d
	d.measured = make([]int32, d.top+1)
	for s := range d.measured {
		d.measured[s] = -1
	}
	for i, m := range p.ms {
		if c := cost[i]; c < math.Inf(1) {
			d.measured[m/unit] = int32(len(d.size))
			d.row, d.size, d.cost = append(d.row, int32(i)), append(d.size, m/unit), append(d.cost, c)
		}
	}
	d.small, d.large = blockMinima(d.cost, smallBlock), blockMinima(d.cost, largeBlock)
	rest := make([]float64, d.top+1) // L(k-1)
	for s, part := range d.measured {
		if rest[s] = math.Inf(1); part >= 0 {
			rest[s] = d.cost[part]
		}
	}
	tail := make([]float64, len(rest))
	for k := 2; k <= maxParts; k++ {
		least := math.Inf(1)
		for s := d.top; s >= 0; s-- {
			least = min(least, rest[s])
			tail[s] = least
		}
		level := denseLevel{denseSearch: d, k: k, rest: rest, tail: tail}
		d.first[k] = make([]int32, len(p.ms))
		level.targets(p.least[k-1], p.least[k])
		if k < maxParts {
			d.chain[k] = make([]int32, d.top+1)
			next := make([]float64, d.top+1)
			level.sums(next)
			rest = next
		}
	}
}

func blockMinima(values []float64, size int) []float64 {
	var out []float64
	for block := range slices.Chunk(values, size) {
		out = append(out, slices.Min(block))
	}
	return out
}

type denseLevel struct {
	*denseSearch
	k    int
	rest []float64 // L(k-1) by sum
	tail []float64 // the minimum of rest from a sum on
}

func (l denseLevel) targets(before, after []float64) {
	first := l.first[l.k]
	stats.InBlocks(len(l.ms), func(from, to int) {
		near := int32(-1)
		for i := from; i < to; i++ {
			after[i], first[i] = l.cheapest(l.ms[i]/l.unit, before[i], near)
			near = first[i]
		}
	})
}

func (l denseLevel) sums(after []float64) {
	chain := l.chain[l.k]
	stats.InBlocks(len(after), func(from, to int) {
		near := int32(-1)
		for s := from; s < to; s++ {
			after[s], chain[s] = l.cheapest(s, l.rest[s], near)
			near = chain[s]
		}
	})
}

// cheapest returns the least cost of a sum in k parts and its smallest part, or known and -1 if that is as
// good. near is the smallest part of the sum before, -1 if unknown: its cost is an upper bound that skips
// most blocks.
func (l denseLevel) cheapest(s int, known float64, near int32) (float64, int32) {
	n := sort.Search(len(l.size), func(j int) bool { return l.size[j]*l.k > s })
	best, choice := known, int32(-1)
	beat := known * (1 - tied)
	if near >= 0 {
		for j := int(near); j < min(int(near)+2, n); j++ {
			// A part that ties with the bound must be found, because it may be smaller.
			beat = min(beat, (l.cost[j]+l.rest[s-l.size[j]])*(1+2*tied))
		}
	}
	for large := 0; large < n; large += largeBlock {
		end := min(large+largeBlock, n)
		if l.large[large/largeBlock]+l.tail[s-l.size[end-1]] >= beat {
			continue
		}
		for from := large; from < end; from += smallBlock {
			to := min(from+smallBlock, end)
			if l.small[from/smallBlock]+l.tail[s-l.size[to-1]] >= beat {
				continue
			}
			sizes, costs := l.size[from:to], l.cost[from:to:to]
			for j, size := range sizes {
				if sum := costs[j] + l.rest[s-size]; sum < beat {
					best, choice = sum, int32(from+j)
					beat = sum * (1 - tied)
				}
			}
		}
	}
	return best, choice
}

func (d *denseSearch) way(i, k int) []int32 {
	part := d.first[k][i]
	out := []int32{d.row[part]}
	s := d.ms[i]/d.unit - d.size[part]
	for k--; ; k-- {
		for k > 1 && d.chain[k][s] < 0 {
			k--
		}
		if k == 1 {
			return append(out, d.row[d.measured[s]])
		}
		part = d.chain[k][s]
		out = append(out, d.row[part])
		s -= d.size[part]
	}
}
