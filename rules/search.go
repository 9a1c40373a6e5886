package rules

import (
	"math"
	"runtime"
	"slices"
	"sync"
)

// denseLimit is the largest M for which times are kept in an array indexed by
// M: 32 MiB of it. Grids that reach further are searched by merging.
const denseLimit = 1 << 22

// partition is a search for the cheapest way to write an M as a sum of measured
// Ms. cost holds the time of each M on its own, launch and all, so that the
// price of more launches is in the sum.
type partition struct {
	ms   []int // ascending, distinct
	cost []float64
	// least[k][i] is the least cost of ms[i] in at most k+1 parts and first[k][i]
	// the position of the smallest part of it, or -1 when fewer parts are as good.
	least [][]float64
	first [][]int32
}

// newPartition searches sums of 2 to maxParts parts for every M. Ties go to the
// fewest parts, then to the smallest first part.
//
// Parts ascend, so the smallest of k is at most M/k: the work is n²/2·Σ1/k, 36
// million sums for 8197 rows and four parts. What is left after the smallest
// part has to be a measured M itself.
func newPartition(ms []int, cost []float64, maxParts int) *partition {
	p := &partition{ms: ms, cost: cost, least: [][]float64{cost}, first: [][]int32{nil}}
	for k := 2; k <= maxParts; k++ {
		p.grow(k)
	}
	return p
}

// grow adds the level of at most k parts.
func (p *partition) grow(k int) {
	n := len(p.ms)
	rest := p.least[k-2]
	least, first := make([]float64, n), make([]int32, n)
	if k == 2 {
		// A split has two parts at least: level 1 is not one of its ways.
		for i := range least {
			least[i] = math.Inf(1)
		}
	} else {
		copy(least, rest)
	}
	for i := range first {
		first[i] = -1
	}
	var dense []float64
	if n > 0 && p.ms[n-1] <= denseLimit {
		dense = make([]float64, p.ms[n-1]+1)
		for m := range dense {
			dense[m] = math.Inf(1)
		}
		for i, m := range p.ms {
			dense[m] = rest[i]
		}
	}
	at := func(i int) {
		whole := p.ms[i]
		best, choice := least[i], int32(-1)
		if dense != nil {
			for a, m := range p.ms[:i] {
				if m*k > whole {
					break
				}
				if sum := p.cost[a] + dense[whole-m]; sum < best {
					best, choice = sum, int32(a)
				}
			}
		} else {
			b := i - 1
			for a := 0; a < i && p.ms[a]*k <= whole; a++ {
				for b >= 0 && p.ms[a]+p.ms[b] > whole {
					b--
				}
				if b >= 0 && p.ms[a]+p.ms[b] == whole {
					if sum := p.cost[a] + rest[b]; sum < best {
						best, choice = sum, int32(a)
					}
				}
			}
		}
		least[i], first[i] = best, choice
	}
	workers := min(runtime.GOMAXPROCS(0), n/512+1)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			for i := w; i < n; i += workers {
				at(i)
			}
		})
	}
	wait.Wait()
	p.least, p.first = append(p.least, least), append(p.first, first)
}

// parts returns the cheapest split of ms[i] in at most k parts, ascending, and
// its cost; nil when there is none.
func (p *partition) parts(i, k int) ([]int, float64) {
	cost := p.least[k-1][i]
	if k < 2 || math.IsInf(cost, 1) {
		return nil, math.Inf(1)
	}
	var out []int
	for {
		for k > 1 && p.first[k-1][i] < 0 {
			k--
		}
		if k == 1 {
			out = append(out, p.ms[i])
			slices.Sort(out)
			return out, cost
		}
		a := p.first[k-1][i]
		out = append(out, p.ms[a])
		i, _ = slices.BinarySearch(p.ms, p.ms[i]-p.ms[a])
		k--
	}
}

// cheapestAbove returns for each position the position with a larger M that
// costs least, or -1 at the end. Ties go to the smaller M.
func cheapestAbove(cost []float64) []int {
	out := make([]int, len(cost))
	best := -1
	for i := len(cost) - 1; i >= 0; i-- {
		out[i] = best
		if best < 0 || cost[i] <= cost[best] {
			best = i
		}
	}
	return out
}
