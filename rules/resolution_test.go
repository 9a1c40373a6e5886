package rules

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// More noise gives a coarser resolution. Larger losses are judged, and no row that loses less than half of it
// is anomalous.
func TestResolution(t *testing.T) {
	before := 0.0
	for _, sigma := range []float64{0.005, 0.03, 0.15} {
		rng := rand.New(rand.NewPCG(8, 8))
		w := synthetic.ByM(func(m int) float64 {
			if m == 512 {
				return 2 * float64(m)
			}
			return float64(m)
		}, synthetic.Student(sigma), rng)
		a, err := RunAudit(context.Background(), w.Sweep(synthetic.Grid(4, 1024, 4), 20), Default().Only(Monotonic), nil)
		if err != nil {
			t.Fatal(err)
		}
		if a.Invalid != "" || a.Resolution <= before || a.Resolution > 4*sigma {
			t.Errorf("noise of %g: resolution %g after %g, invalid %q", sigma, a.Resolution, before, a.Invalid)
		}
		if before = a.Resolution; len(a.Flagged) != 1 || a.Flagged[0] != 512 {
			t.Errorf("noise of %g: flagged %v, expected 512 alone", sigma, a.Flagged)
		}
	}
}

// On a noisy machine most rows without loss are clean, and at most one in twenty rows that lose more than
// CleanBelow. A quiet machine keeps the rule's bound.
func TestCleanAtAResolution(t *testing.T) {
	for _, sigma := range []float64{0.005, 0.15, 0.3} {
		slow, missed, open, rows := 0, 0, 0, 0
		for seed := range uint64(8) {
			rng := rand.New(rand.NewPCG(seed, 11))
			truth := func(int) float64 { return 1 }
			w := synthetic.ByM(func(m int) float64 { return float64(m) * truth(m) }, synthetic.Student(sigma), rng)
			run := func() *Audit {
				a, err := RunAudit(context.Background(), w.Sweep(synthetic.Grid(4, 1024, 4), 20), Default().Only(Monotonic), nil)
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			a := run()
			if sigma < 0.01 != (a.CleanBelow == 0) || a.CleanBelow != 0 && a.CleanBelow < a.Resolution/(1+a.Resolution) {
				t.Fatalf("noise of %g: clean below %g at a resolution of %g", sigma, a.CleanBelow, a.Resolution)
			}
			for _, r := range a.Series[0].Rows {
				rows++
				if r.Verdict == Undecided {
					open++
				}
			}
			lost := math.Max(a.CleanBelow, 0.05) + 0.01
			truth = func(m int) float64 {
				if m > 512 && m%32 == 0 {
					return 1 / (1 - lost)
				}
				return 1
			}
			for _, r := range run().Series[0].Rows {
				if r.M > 512 && r.M%32 == 0 {
					slow++
					if r.Verdict == Clean {
						missed++
					}
				}
			}
		}
		if 20*missed > slow {
			t.Errorf("noise of %g: %d of %d rows that lose more are called clean", sigma, missed, slow)
		}
		if 10*open > 3*rows {
			t.Errorf("noise of %g: %d of %d rows that lose nothing are undecided", sigma, open, rows)
		}
	}
}

func TestInvalidRunClearsNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 12))
	w := synthetic.ByM(func(m int) float64 { return float64(m) }, synthetic.Student(0.3), rng)
	cfg := Default().Only(Monotonic)
	cfg.DriftBound = 0.05
	a, err := RunAudit(context.Background(), w.Sweep(synthetic.Grid(4, 1024, 4), 20), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.Invalid == "" || a.CleanBelow != 0 || 2*a.Undecided < a.Cases {
		t.Errorf("invalid %q, clean below %g, %d of %d rows undecided", a.Invalid, a.CleanBelow, a.Undecided, a.Cases)
	}
}

func TestResolutionInWords(t *testing.T) {
	for share, want := range map[float64]string{0.1192: "12 %", 0.0021: "0.21 %", 0.04016: "4.1 %", 0.12: "12 %", 1.5: "150 %",
		0: "0.0000 %"} {
		if got := phrase.Roughly(share); got != want && share > 0 {
			t.Errorf("%g is %q, expected %q", share, got, want)
		}
	}
}

// A few seconds of blocks predict the resolution of rows with the same noise, with and without delays.
func TestSteadiness(t *testing.T) {
	for name, draw := range map[string]func(*rand.Rand) float64{
		"delays": func(rng *rand.Rand) float64 {
			y := 0.01 * rng.NormFloat64()
			if rng.Float64() < 0.4 {
				y += 0.15 * rng.ExpFloat64()
			}
			return y
		}, "normal": func(rng *rand.Rand) float64 { return 0.03 * rng.NormFloat64() },
	} {
		rng := rand.New(rand.NewPCG(2, 9))
		samples := make([][]results.Sample, 3)
		for i := range samples {
			for range 400 {
				samples[i] = append(samples[i], results.Sample{US: 100 * math.Exp(draw(rng)), Launches: 1})
			}
		}
		kind := synthetic.Noise{Name: name, Draw: draw}
		got := infer.TellSteadiness(samples, 20, Default().Basis())
		w := synthetic.ByM(func(m int) float64 { return float64(m) }, kind, rng)
		a, err := RunAudit(context.Background(), w.Sweep(synthetic.Grid(4, 1024, 4), 20), Default().Only(Monotonic), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.Resolution < 0.6*a.Resolution || got.Resolution > 1.7*a.Resolution || got.Scatter.Low() != (name == "delays") {
			t.Errorf("%s: %+v, a run has %g", name, got, a.Resolution)
		}
	}
	if s := infer.TellSteadiness(make([][]results.Sample, 2), 20, Default().Basis()); s.Resolution != 0 {
		t.Errorf("no samples have the resolution %g", s.Resolution)
	}
}
