// Package fittest makes cards and times for tests of what is fitted to times.
package fittest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
)

// Reference is the card that fits begin at.
func Reference(t testing.TB) *calibration.Card {
	t.Helper()
	c, err := calibration.Nearest(cudatest.H200.CC, cudatest.H200.SMs, cudatest.H200.Bandwidth)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Another is a card whose constants are off by up to a third from those of the reference, in
// all models or in those named.
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

// Times are what the candidates of families take on a card whose models are right but for
// noise: of those expected to take less than 1.6 times the fastest, for every case that keep
// takes, up to so many cases; 0 stands for all of the grid.
func Times(t testing.TB, on *calibration.Card, noise float64, cases int, keep func(c candidates.Case, family string) bool) []candidates.Time {
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
					all = append(all, candidates.Time{Case: c, Family: family, Index: i, Label: e.Label, Seconds: s, Interval: [2]float64{0.99 * s, 1.01 * s}})
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

// Few keeps gemv and decode attention, of which much is planned in little time.
func Few(_ candidates.Case, family string) bool { return family == "gemv" || family == "decode" }
