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

// guessed returns kinds by what ran on both sides of an M.
func (a asking) guessed(points []point) func(m, at int) (results.LaunchKind, familyKind, bool) {
	piece := pieces(points)
	next := 0
	return func(m, at int) (results.LaunchKind, familyKind, bool) {
		for next < len(points) && points[next].m < m {
			next++
		}
		of := at
		if at < 0 {
			if next == 0 || next == len(points) || !alikeKernels(points[next-1], points[next]) || piece[next-1] != piece[next] {
				return results.LaunchKind{}, familyKind{}, false
			}
			of = next
		}
		p := points[of]
		kind := results.LaunchKind{Label: p.label, Tile: p.launch.Tile, Split: p.launch.Split, Orientation: p.launch.Orientation}
		if tiles := kind.Tiles(p.m, a.key.N); tiles > 0 && p.launch.Waves > 0 {
			kind.Slots = math.Round(float64(tiles) / p.launch.Waves)
		}
		key := familyOf(kind)
		if p.label == "" {
			key.piece = 1 + piece[of]
		}
		return kind, key, true
	}
}

// alikeKernels says whether two rows ran the same kernel, as far as is known.
func alikeKernels(p, q point) bool {
	return tailSplit.ReplaceAllString(p.label, "") == tailSplit.ReplaceAllString(q.label, "") && p.launch.Tile == q.launch.Tile && p.launch.Split == q.launch.Split
}

// pieces numbers the stretches of a series of unnamed kernels in which the time is a line in
// M; all are 0 where kernels are named.
func pieces(points []point) []int {
	out := make([]int, len(points))
	piece := 0
	for i := 1; i < len(points); i++ {
		if points[i].label == "" && breaksAt(points, i) {
			piece++
		}
		out[i] = piece
	}
	return out
}

// breaksAt says whether the time between point i−1 and i is not what the lines through the two
// points before and through the two behind say.
func breaksAt(points []point, i int) bool {
	off := func(a, b, at point) float64 {
		ta, tb := math.Exp(a.us.y), math.Exp(b.us.y)
		t := ta + (tb-ta)*float64(at.m-a.m)/float64(b.m-a.m)
		return math.Abs(math.Log(math.Max(t, 1e-9)) - at.us.y)
	}
	bound := math.Max(breakStep, clearly*math.Hypot(points[i-1].us.se, points[i].us.se))
	least := math.Inf(1)
	if i >= 2 {
		least = math.Min(least, off(points[i-2], points[i-1], points[i]))
	}
	if i+1 < len(points) {
		least = math.Min(least, off(points[i+1], points[i], points[i-1]))
	}
	return least > bound && !math.IsInf(least, 1)
}
