// Package calibratetest is a card without a GPU, for tests of calibration.
package calibratetest

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibrate"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Card takes as long for plans as the models expect with the constants that are the truth of it, but for noise.
type Card struct {
	Name   string
	Driver string
	Arch   planning.Arch
	Truth  *calibration.Card
	Noise  float64 // standard deviation of the logarithm of a time
	Clock  time.Time
	// Overhead is what timing a case takes beside its plans, in seconds.
	Overhead float64
	// Fail, where it is set, is asked before each case.
	Fail func() error
}

// Now is the time on the card's clock, which goes on while plans are timed.
func (c *Card) Now() time.Time { return c.Clock }

// CardFacts implements [calibrate.Card].
func (c *Card) CardFacts(date string) candidates.Card {
	return candidates.Describe(c.Name, c.Driver, date, c.Arch)
}

// MeasureDirectly implements [calibrate.Card].
func (c *Card) MeasureDirectly(_ context.Context, seconds float64) (calibrate.Direct, error) {
	c.pass(seconds)
	return calibrate.Direct{ClockMHz: 0.7 * c.Arch.ClockMHz, Launch: 2.1e-6, Bandwidth: 0.9 * c.Arch.Bandwidth, L2: 50}, nil
}

func (c *Card) pass(seconds float64) {
	c.Clock = c.Clock.Add(time.Duration(seconds * float64(time.Second)))
}

// sample is how long one sample takes beside what it times.
const sample = 300e-6

// TimePlans implements [calibrate.Card].
func (c *Card) TimePlans(ctx context.Context, of candidates.Case, picks calibrate.Picks, rounds int, seed uint64) ([]candidates.Time, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.Fail != nil {
		if err := c.Fail(); err != nil {
			return nil, err
		}
	}
	restore, err := calibration.Try(c.Truth)
	if err != nil {
		return nil, err
	}
	defer restore()
	rng := rand.New(rand.NewPCG(seed, uint64(of.M)))
	c.pass(c.Overhead)
	var all []candidates.Time
	for _, family := range candidates.Families(of.Operation) {
		expected, err := candidates.Expect(c.Arch, of, family)
		if err != nil {
			return nil, err
		}
		for _, i := range slices.Sorted(slices.Values(picks[family])) {
			var samples []float64
			for range rounds {
				samples = append(samples, expected[i].Seconds*math.Exp(c.Noise*rng.NormFloat64()))
				c.pass(sample + expected[i].Seconds)
			}
			t := candidates.Time{Case: of, Family: family, Index: i, Label: expected[i].Label}
			t.Seconds, t.Interval[0], t.Interval[1] = candidates.Median(samples)
			all = append(all, t)
		}
	}
	return all, nil
}
