package cause

import (
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// The fall across an M is between its neighbors, from the first point of a curve on.
func TestAround(t *testing.T) {
	us := map[int]float64{64: 10, 128: 25, 192: 26, 256: 27}
	c := infer.Prepare(synthetic.ByM(func(m int) float64 { return us[m] }, synthetic.Gaussian(0), rand.New(rand.NewPCG(1,
		1))).Sweep([]int{64, 128, 192,
		256}, 5),
		usual).Curves[0]
	for _, tc := range []struct{ m, from, to int }{{64, 0, 1}, {100, 0, 1}, {150, 0, 2}, {32, -1, -1}, {256, -1, -1}} {
		if _, from, to := c.Around(tc.m); from != tc.from || to != tc.to {
			t.Errorf("around m%d it falls from point %d to %d, want %d to %d", tc.m, from, to, tc.from, tc.to)
		}
	}
}
