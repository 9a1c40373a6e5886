package fleet

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func levelsOf(rng *rand.Rand, cards, perHost, processes int, host, card, process float64) []level {
	var out []level
	h := 0.0
	for c := range cards {
		if c%perHost == 0 {
			h = host * rng.NormFloat64()
		}
		x := card * rng.NormFloat64()
		for range processes {
			out = append(out, level{card: c, host: c / perHost, hours: 10 * rng.Float64(), y: 3 + h + x + process*rng.NormFloat64()})
		}
	}
	return out
}

func TestRates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{8, 64} {
		for _, slow := range []float64{0, 0.02} {
			found, innocent, drift := 0, 0, 0
			reps := 1600 / n
			for range reps {
				v := levelsOf(rng, n, 1, 3, 0, 0.003, 0.002)
				for i := range v {
					if v[i].card == 0 {
						v[i].y += slow
					}
				}
				e := separate(v, n, 1, ofCommon)
				if len(e.drift) > 0 {
					drift++
				}
				p := make([]float64, n)
				for i, c := range e.cards {
					p[i] = c.p
				}
				for i, q := range stats.AdjustP(p) {
					if q <= 0.05 && e.cards[i].dev > 0.005 {
						if i == 0 && slow > 0 {
							found++
						} else {
							innocent++
						}
					}
				}
			}
			t.Logf("%d cards, one %v slow: found %d and %d innocent ones in %d fleets, %d of which are said to drift", n, slow, found,
				innocent, reps, drift)
			if slow > 0 && found < reps*95/100 {
				t.Errorf("%d cards: a card %v slow is found in %d of %d fleets", n, slow, found, reps)
			}
			// At most about one fleet in twenty flags a normal card.
			if innocent > reps/20+6 {
				t.Errorf("%d cards: %d innocent cards are named in %d fleets", n, innocent, reps)
			}
			if drift > reps/4 {
				t.Errorf("%d cards: %d of %d fleets that do not drift are said to", n, drift, reps)
			}
		}
	}
}

func TestComponents(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	e := separate(levelsOf(rng, 512, 8, 3, 0.004, 0.003, 0.002), 512, 1, ofCommon)
	for name, x := range map[string]struct {
		got  *float64
		want float64
	}{"host": {e.parts.Host, 0.004}, "card": {e.parts.Card, 0.003}, "process": {e.parts.Process, 0.002}} {
		if x.got == nil || math.Abs(*x.got-x.want) > 0.2*x.want {
			t.Errorf("%s: %v, want %v", name, x.got, x.want)
		}
	}
}
