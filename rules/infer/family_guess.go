package infer

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
)

// If the kernels are unknown beforehand, measurements tell: rows between two that ran the same kernel are
// assumed to run it too. If kernels have no names, the series is cut where its time steps. Both miss a change
// that begins and ends between two measured rows; see [choose.Designer.Seeds] for their distance.

const breakStep = 0.01

// guessed returns kinds by the kernels that ran on both sides of an M. Check rows don't count as sides,
// because they check the guess.
func (a Asking) guessed(points []Point) func(m, at int) (*results.LaunchKind, FamilyKind, bool) {
	var sides []int // the points between which kinds are guessed
	for i, p := range points {
		if !a.Check(p.M) {
			sides = append(sides, i)
		}
	}
	piece := pieces(points, sides)
	next := 0
	last := &results.LaunchKind{}
	return func(m, at int) (*results.LaunchKind, FamilyKind, bool) {
		for next < len(sides) && points[sides[next]].M < m {
			next++
		}
		of, in := -1, 0
		switch {
		case next < len(sides) && points[sides[next]].M == m:
			of, in = at, piece[next]
		case next > 0 && next < len(sides) && alikeKernels(points[sides[next-1]], points[sides[next]]) && piece[next-1] == piece[next]:
			of, in = sides[next], piece[next]
		case at >= 0:
			of, in = at, -m // a check row without a guess
		default:
			return nil, FamilyKind{}, false
		}
		p := points[of]
		kind := results.LaunchKind{Label: p.Label, Tile: p.Launch.Tile, Split: p.Launch.Split, Orientation: p.Launch.Orientation}
		if tiles := kind.Tiles(p.M, a.Key.N); tiles > 0 && p.Launch.Waves > 0 {
			kind.Slots = math.Round(float64(tiles) / p.Launch.Waves)
		}
		key := familyOf(kind)
		if p.Label == "" || in < 0 {
			key.piece = 1 + in
		}
		if kind != *last {
			last = &kind
		}
		return last, key, true
	}
}

func alikeKernels(p, q Point) bool {
	return AlikeLabels(p.Label, q.Label) && p.Launch.Tile == q.Launch.Tile && p.Launch.Split == q.Launch.Split
}

// pieces numbers the stretches of a series of unnamed kernels with a linear time in M, by the given points;
// all are 0 if kernels are named.
func pieces(points []Point, of []int) []int {
	out := make([]int, len(of))
	piece := 0
	for i := 1; i < len(of); i++ {
		if points[of[i]].Label == "" && breaksAt(points, of, i) {
			piece++
		}
		out[i] = piece
	}
	return out
}

// breaksAt reports whether the time jumps between points i−1 and i, compared with the lines through the two
// points before and the two after.
func breaksAt(points []Point, of []int, i int) bool {
	side := func(k int) *Point { return &points[of[k]] }
	off := func(a, b, at *Point) float64 {
		ta, tb := math.Exp(a.US.Y), math.Exp(b.US.Y)
		t := ta + (tb-ta)*float64(at.M-a.M)/float64(b.M-a.M)
		return math.Abs(math.Log(math.Max(t, 1e-9)) - at.US.Y)
	}
	bound := math.Max(breakStep, Clearly*math.Hypot(side(i-1).US.SE, side(i).US.SE))
	least := math.Inf(1)
	if i >= 2 {
		least = math.Min(least, off(side(i-2), side(i-1), side(i)))
	}
	if i+1 < len(of) {
		least = math.Min(least, off(side(i+1), side(i), side(i-1)))
	}
	return least > bound && !math.IsInf(least, 1)
}

// Clearly is by how many standard errors one time must lie below another before a cause rests on it.
const Clearly = 3
