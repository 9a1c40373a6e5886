// Package fittest makes cards and times for tests of fits.
package fittest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
)

// Reference returns the starting card of fits.
func Reference(t testing.TB) *calibration.Card {
	t.Helper()
	return calibration.Nearest(cudatest.H200.CC, cudatest.H200.SMs, cudatest.H200.Bandwidth)
}

// Another returns a card whose constants differ from the reference's by up to a third, in all models or in
// the named ones.
func Another(t testing.TB, models ...string) *calibration.Card {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	c := Reference(t).Clone()
	if len(models) == 0 {
		models = calibration.Names()
	}
	for _, name := range models {
		for _, constant := range c.Models[name].Order(name) {
			q := c.Models[name].Constants[constant]
			q.Value *= math.Pow(4./3, 2*rng.Float64()-1)
			c.Models[name].Constants[constant] = q
		}
	}
	return c
}

// Times simulates the candidates' times on a card whose models are exact except for noise. It includes
// candidates below 1.6 times the fastest expected one, for up to `cases` cases that keep accepts; 0 means the
// whole grid.
func Times(t testing.TB, on *calibration.Card, noise float64, cases int,
	keep func(c candidates.Case, family string) bool) []candidates.Time {
	t.Helper()
	restore, err := calibration.Try(on)
	if err != nil {
		t.Fatal(err)
	}
	defer restore()
	rng := rand.New(rand.NewPCG(5, 6))
	var all []candidates.Time
	for _, c := range candidates.Grid(1) {
		found := false
		for _, family := range candidates.Families(c.Operation) {
			if !keep(c, family) {
				continue
			}
			expected, err := candidates.Expect(cudatest.H200, c, family)
			if err != nil {
				t.Fatal(err)
			}
			best := math.Inf(1)
			for _, e := range expected {
				best = min(best, e.Seconds)
			}
			for i, e := range expected {
				if e.Seconds < 1.6*best {
					s := e.Seconds * math.Exp(noise*rng.NormFloat64())
					all = append(all, candidates.Time{Case: c, Family: family, Index: i, Label: e.Label, Seconds: s,
						Interval: [2]float64{0.99 * s, 1.01 * s}})
					found = true
				}
			}
		}
		if found {
			if cases--; cases == 0 {
				break
			}
		}
	}
	return all
}

// Few keeps gemv and decode attention, which have many plans that are fast to compute.
func Few(_ candidates.Case, family string) bool { return family == "gemv" || family == "decode" }
