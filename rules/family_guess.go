package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
)

// Where nothing tells what would run, what was measured does: the rows between two that ran
// the same kernel are taken to run it too. Where not even that is known, the series is cut where
// its time steps up or down. Either misses what begins and ends between two measured
// rows; see [Designer.Seeds] for how far these lie apart.

// breakStep is the least jump of the time, as a share, that cuts a series of unnamed kernels.
const breakStep = 0.01

// guessed returns kinds by what ran on both sides of an M. Check rows are no such sides: they
// are there to be held against what is guessed.
func (a asking) guessed(points []point) func(m, at int) (*results.LaunchKind, familyKind, bool) {
	var sides []int // the points between which kinds are guessed
	for i, p := range points {
		if !a.check(p.m) {
			sides = append(sides, i)
		}
	}
	piece := pieces(points, sides)
	next := 0
	last := &results.LaunchKind{}
	return func(m, at int) (*results.LaunchKind, familyKind, bool) {
		for next < len(sides) && points[sides[next]].m < m {
			next++
		}
		of, in := -1, 0
		switch {
		case next < len(sides) && points[sides[next]].m == m:
			of, in = at, piece[next]
		case next > 0 && next < len(sides) && alikeKernels(points[sides[next-1]], points[sides[next]]) && piece[next-1] == piece[next]:
			of, in = sides[next], piece[next]
		case at >= 0:
			of, in = at, -m // a check row of which nothing was guessed
		default:
			return nil, familyKind{}, false
		}
		p := points[of]
		kind := results.LaunchKind{Label: p.label, Tile: p.launch.Tile, Split: p.launch.Split, Orientation: p.launch.Orientation}
		if tiles := kind.Tiles(p.m, a.key.N); tiles > 0 && p.launch.Waves > 0 {
			kind.Slots = math.Round(float64(tiles) / p.launch.Waves)
		}
		key := familyOf(kind)
		if p.label == "" || in < 0 {
			key.piece = 1 + in
		}
		if kind != *last {
			last = &kind
		}
		return last, key, true
	}
}

// alikeKernels says whether two rows ran the same kernel, as far as is known.
func alikeKernels(p, q point) bool {
	return alikeLabels(p.label, q.label) && p.launch.Tile == q.launch.Tile && p.launch.Split == q.launch.Split
}

// pieces numbers the stretches of a series of unnamed kernels in which the time is a line in
// M, by some of its points; all are 0 where kernels are named.
func pieces(points []point, of []int) []int {
	out := make([]int, len(of))
	piece := 0
	for i := 1; i < len(of); i++ {
		if points[of[i]].label == "" && breaksAt(points, of, i) {
			piece++
		}
		out[i] = piece
	}
	return out
}

// breaksAt says whether the time between the points i−1 and i of some is not what the lines through the two
// points before and through the two behind say.
func breaksAt(points []point, of []int, i int) bool {
	side := func(k int) *point { return &points[of[k]] }
	off := func(a, b, at *point) float64 {
		ta, tb := math.Exp(a.us.y), math.Exp(b.us.y)
		t := ta + (tb-ta)*float64(at.m-a.m)/float64(b.m-a.m)
		return math.Abs(math.Log(math.Max(t, 1e-9)) - at.us.y)
	}
	bound := math.Max(breakStep, clearly*math.Hypot(side(i-1).us.se, side(i).us.se))
	least := math.Inf(1)
	if i >= 2 {
		least = math.Min(least, off(side(i-2), side(i-1), side(i)))
	}
	if i+1 < len(of) {
		least = math.Min(least, off(side(i+1), side(i), side(i-1)))
	}
	return least > bound && !math.IsInf(least, 1)
}
