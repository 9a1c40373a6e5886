package sweep

import (
	"context"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

type clockSeen struct {
	run  *results.Run
	seen []float64
}

func (c *clockSeen) Open(cases []results.Case, _ []results.Sample) ([]int64, error) {
	c.seen = append(c.seen, c.run.Meta().ReferenceClock["sim"])
	return []int64{cases[0].ID}, nil
}

// The clock falls in the middle of the later rounds. The reference is the sentinels' median so far at each
// look.
func TestReferenceClock(t *testing.T) {
	for _, c := range []struct {
		name             string
		before, after    float64
		given            float64
		atLook, atTheEnd float64
	}{
		{"rounded to 50 MHz", 1432, 1432, 0, 1450, 1450},
		{"rounded down", 1424, 1424, 0, 1400, 1400},
		{"as given", 1432, 1432, 1612.5, 1612.5, 1612.5},
		{"the median of all", 1800, 1400, 0, 1800, 1400},
		{"unknown", 0, 0, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := declared(func(k *simulated.Config) {
				k.Clock = func(seconds float64) float64 {
					if seconds < 0.2 {
						return c.before
					}
					return c.after
				}
			})
			p := planned(t, d, "1:40", func(o *Options) {
				o.Rounds, o.Screening, o.ReferenceClock = 1000, 2, c.given
				o.Sentinel.Every = 2 * time.Millisecond
			})
			run := newRun(t, p)
			seen := &clockSeen{run: run}
			if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now,
				Chooser: seen}).Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			if len(seen.seen) == 0 || seen.seen[0] != c.atLook {
				t.Errorf("the chooser saw reference clocks of %v MHz, want first %g", seen.seen, c.atLook)
			}
			if last := seen.seen[len(seen.seen)-1]; last != c.atTheEnd {
				t.Errorf("the chooser's last look was at %g MHz, %g are stored at the end", last, c.atTheEnd)
			}
			clock, stored := run.Meta().ReferenceClock["sim"]
			if clock != c.atTheEnd || stored != (c.atTheEnd > 0) {
				t.Errorf("%g MHz are stored (%v), want %g", clock, stored, c.atTheEnd)
			}
		})
	}
}
