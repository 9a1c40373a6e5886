//go:build cuda

package cuda

import (
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibrate"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
)

// unseen is a card that is taken for one without constants: with the name of another and the bandwidth of a
// card that was seen.
type unseen struct {
	*Device
	bandwidth float64
}

func (d unseen) CardFacts(date string) candidates.Card {
	c := d.Device.CardFacts(date)
	c.Card, c.Bandwidth = "unseen", d.bandwidth
	return c
}

// TestCalibrateUnseen: beginning at another card's constants, with another card's bandwidth, a calibration finds constants
// by which auto picks about as well as by those that ship for this card, in the time that it is given.
func TestCalibrateUnseen(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 20 seconds")
	}
	d := gpu(t)
	cards, err := calibration.Cards()
	if err != nil {
		t.Fatal(err)
	}
	a := d.Arch()
	other := cards[0]
	for _, c := range cards {
		if c.Capability == a.CC && c.Bandwidth != a.Bandwidth {
			other = c
		}
	}
	r, err := calibrate.Run(t.Context(), unseen{d, other.Bandwidth}, calibrate.Options{
		Limit: calibrate.Limit, Seed: 2, Program: "test", Now: time.Now, Progress: func(what string, _ bool) { t.Log(what) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Seconds > 1.15*calibrate.Limit.Seconds() {
		t.Errorf("it took %.1f s of %v", r.Seconds, calibrate.Limit)
	}
	t.Logf("from %s: %d times of %d cases in %.1f s; %+v", r.Near.Card, r.Times, r.Cases, r.Seconds, r.Direct)
	for _, o := range r.Models {
		t.Logf("%s: %v", o.Name, o)
	}
	for _, c := range r.Checks {
		t.Logf("%v: before %.1f %% after %.1f %% (%s %s, %s %s)", c.Case, 100*(c.Before.Seconds/c.Best.Seconds-1), 100*(c.After.Seconds/c.Best.Seconds-1),
			c.After.Family, c.After.Label, c.Best.Family, c.Best.Label)
	}
	for _, p := range r.Parts {
		t.Logf("%+v", p)
		// Constants of a card that is much alike may be as good as its own: then those that were fitted are refused.
		const good = 0.03
		if p.Verdict == calibrate.Unchecked || p.Verdict == calibrate.Better && p.After > good && p.After > p.Before {
			t.Errorf("%s: picks are %.1f %% slower than the best, and were %.1f %% before", p.Name, 100*p.After, 100*p.Before)
		}
	}
}
