package infer

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A row with an elasticity unlike its neighbors' keeps its own; the others are shrunk, and so is a row with a
// single sample.
func TestElasticities(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	rows := make([]track, 21)
	for i := range rows {
		beta := 0.2
		if i == 10 {
			beta = 0.9
		}
		samples := 30
		if i == 5 {
			samples = 1
		}
		for range samples {
			x := 0.3 + 0.02*rng.Float64()
			rows[i].x, rows[i].y = append(rows[i].x, x), append(rows[i].y, 5-beta*x+1e-6*rng.NormFloat64())
		}
	}
	for i, e := range elasticities(rows) {
		want := 0.2
		if i == 10 {
			want = 0.9
		}
		if !(math.Abs(e.Beta-want) <= 1e-2 && e.SE <= 0.05) {
			t.Errorf("row %d: %+v, expected %g", i, e, want)
		}
	}
}
