package rules

import (
	"math"
	"slices"
)

// denseLimit is the largest sum, in units of the grid's greatest common divisor,
// for which costs are kept in arrays indexed by the sum: 32 MiB an array. Grids
// that reach further are searched by [sparseSearch].
const denseLimit = 1 << 22

// tied is the relative difference below which two costs are equal. Sums of the
// same parts differ by their rounding with the order of the additions; without
// it, a split in more parts would win by the last bit.
const tied = 1e-12

// partition is the search for the cheapest way to write an M as a sum of measured
// Ms. The cost of an M is its time on its own, launch and all, so that the price
// of more launches is in the sum. An M whose cost is +Inf is no part of any sum.
type partition struct {
	ms []int // ascending, distinct
	// least[k][i] is the least cost of ms[i] in 2 to k parts.
	least [][]float64
	// ways writes out the parts that least[k][i] stands for, given that no fewer
	// parts are as cheap. The parts are positions in ms.
	ways interface{ way(i, k int) []int32 }
	// cut says that the search of some M in three or more parts ended before all
	// sums were seen; only a grid beyond denseLimit can do that. What is stated is
	// then the cost of a real split, but perhaps not the least.
	cut bool
}

// newPartition searches sums of 2 to maxParts parts for every M. The result is
// the true optimum over all multisets of measured Ms, up to [tied]; what is left
// after some of the parts need not be measured itself. Ties go to the fewest
// parts, then to the smallest first part.
//
// Where the largest M is at most [denseLimit] times the greatest common divisor of
// all Ms, this always holds. Beyond, it holds for two parts always, and for more
// as long as cut is false.
func newPartition(ms []int, cost []float64, maxParts int) *partition {
	return partitionWithin(ms, cost, maxParts, denseLimit)
}

// partitionWithin is newPartition with another limit than denseLimit.
func partitionWithin(ms []int, cost []float64, maxParts, limit int) *partition {
	p := emptyPartition(ms, maxParts)
	unit := 0
	for _, m := range ms {
		unit = gcd(unit, m)
	}
	switch {
	case len(ms) == 0:
	case ms[len(ms)-1]/unit <= limit:
		searchDense(p, cost, unit)
	default:
		s := sparseSearch{steps: sparseSteps / len(ms)}
		s.search(p, cost)
	}
	return p
}

// emptyPartition is a search that has found nothing yet.
func emptyPartition(ms []int, maxParts int) *partition {
	p := &partition{ms: ms, least: make([][]float64, maxParts+1)}
	for k := range p.least {
		p.least[k] = slices.Repeat([]float64{math.Inf(1)}, len(ms))
	}
	return p
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// parts returns the cheapest split of ms[i] in at most k parts, ascending, and
// its cost; nil and +Inf when there is none.
func (p *partition) parts(i, k int) ([]int, float64) {
	cost := p.least[k][i]
	if math.IsInf(cost, 1) {
		return nil, cost
	}
	for k > 2 && p.least[k-1][i] == cost {
		k--
	}
	var out []int
	for _, at := range p.ways.way(i, k) {
		out = append(out, p.ms[at])
	}
	slices.Sort(out)
	return out, cost
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
