package infer

import (
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
)

// An inferred row takes its elasticity from the nearest measured row of its line.
func TestInferredFollowsItsNearest(t *testing.T) {
	c := &Curve{Points: []Point{{M: 100, Elastic: Elasticity{Beta: 0.2}, Clock: 1000},
		{M: 200, Elastic: Elasticity{Beta: 0.9}, Clock: 2000}}}
	c.Series.Key = syntheticKey
	l := &Line{Family: &Family{n: 4096}}
	for i, p := range c.Points {
		l.Rows = append(l.Rows, told{M: p.M, logM: math.Log(float64(p.M)), point: i})
	}
	for m, want := range map[int]int{110: 0, 190: 1} {
		r := FamilyRow{M: m, kind: &results.LaunchKind{Label: "k"}, Point: -1}
		got := l.point(c, r, prediction{from: []int{0, 1}, weight: []float64{0.5, 0.5}})
		if near := c.Points[want]; got.Elastic != near.Elastic || got.Clock != near.Clock || got.M != m || !got.Inferred {
			t.Errorf("m%d follows %+v at %g MHz, want as m%d does: %+v", m, got.Elastic, got.Clock, near.M, near.Elastic)
		}
	}
}
