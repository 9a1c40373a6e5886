package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The interval's coverage must match its level, and its width shrinks with pairs.
func TestGainHoldsTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const truth, trials = 1.05, 2000
	for _, n := range []int{6, 9, 15, 31} {
		held, width := 0, 0.
		for range trials {
			direct, remedy := make([]float64, n), make([]float64, n)
			for i := range n {
				common := math.Exp(0.1 * r.NormFloat64())
				direct[i] = truth * common * math.Exp(0.02*r.NormFloat64())
				remedy[i] = common * math.Exp(0.02*r.NormFloat64())
			}
			g := Gain(direct, remedy)
			if g.Lo <= truth && truth <= g.Hi {
				held++
			}
			if g.Lo > g.Mid || g.Mid > g.Hi {
				t.Fatalf("%d pairs: %v is not in order", n, g)
			}
			width += g.Hi - g.Lo
		}
		if share := float64(held) / trials; share < 0.93 {
			t.Errorf("%d pairs: the interval holds the truth in %.1f %% of trials", n, 100*share)
		}
		if width/trials > 0.2 {
			t.Errorf("%d pairs: intervals are %.3f wide, the common noise is in them", n, width/trials)
		}
	}
}

func TestGainOfFewPairs(t *testing.T) {
	if g := Gain(nil, nil); !math.IsNaN(g.Mid) {
		t.Errorf("no pairs: %v", g)
	}
	g := Gain([]float64{2, 2, 2}, []float64{1, 1, 1})
	if math.Abs(g.Mid-2) > 1e-12 || g.Lo != 0 || !math.IsInf(g.Hi, 1) {
		t.Errorf("three pairs: %v, expected 2 without bounds", g)
	}
}
