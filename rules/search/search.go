package search

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// denseLimit is the largest sum, in units of the grid's greatest common divisor, whose costs are kept in
// arrays indexed by the sum: 32 MiB per array. [sparseSearch] handles larger grids.
const denseLimit = 1 << 22

// tied is the relative difference below which two costs are equal. The order of additions changes a sum's
// rounding; without tied, a split in more parts could win by the last bit.
const tied = 1e-12

// Partition searches the cheapest way to write an M as a sum of measured Ms. The cost of an M is the time of
// its own launch, so the sum includes the overhead of more launches. An M with cost +Inf is never a part.
type Partition struct {
	ms []int // ascending, distinct
	// least[k][i] is the least cost of ms[i] in 2 to k parts.
	least [][]float64
	// ways returns the parts behind least[k][i], given that no fewer parts are as cheap. The parts are
	// positions in ms.
	ways interface{ way(i, k int) []int32 }
	// Cut is true if the search of some M in three or more parts ended early, which only happens on grids
	// beyond denseLimit. The result is then a valid split, but may not be the cheapest.
	Cut bool
}

// New searches sums of 2 to maxParts parts for every M. The result is the true optimum over all
// multisets of measured Ms, up to [tied]; the rest after some of the parts need not be a measured M. Ties go
// to the fewest parts, then to the smallest first part.
//
// The optimum is guaranteed if the largest M is at most [denseLimit] times the greatest common divisor of all
// Ms. On larger grids it is guaranteed for two parts, and for more parts if cut is false.
func New(ms []int, cost []float64, maxParts int) *Partition {
	return partitionWithin(ms, cost, maxParts, denseLimit)
}

func partitionWithin(ms []int, cost []float64, maxParts, limit int) *Partition {
	p := emptyPartition(ms, maxParts)
	unit := 0
	for _, m := range ms {
		unit = stats.GCD(unit, m)
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

func emptyPartition(ms []int, maxParts int) *Partition {
	p := &Partition{ms: ms, least: make([][]float64, maxParts+1)}
	for k := range p.least {
		p.least[k] = slices.Repeat([]float64{math.Inf(1)}, len(ms))
	}
	return p
}

// Parts returns the cheapest split of ms[i] in at most k parts, ascending, and its cost, or nil and +Inf.
func (p *Partition) Parts(i, k int) ([]int, float64) {
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

// CheapestAbove returns for each position the position of the cheapest larger M, or -1 at the end. Ties go to
// the smaller M.
func CheapestAbove(cost []float64) []int {
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
