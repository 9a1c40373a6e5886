package calibrate_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibrate"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibrate/calibratetest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/fitting/fittest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// a100 is a card of which nobody has measured constants, and on which few families of kernels run.
var a100 = planning.Arch{CC: 80, SMs: 108, SharedMax: 163 << 10, L2: 40 << 20, ClockMHz: 1410, Bandwidth: 1555e9}

// card is an A100 whose constants are others than those that ship.
func card(truth *calibration.Card) *calibratetest.Card {
	return &calibratetest.Card{
		Name: "NVIDIA A100", Driver: "580.1", Arch: a100, Truth: truth, Noise: 0.005,
		Clock: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), Overhead: 0.06,
	}
}

// odd is what a card's constants may be where those that ship mislead.
func odd(t *testing.T) *calibration.Card {
	t.Helper()
	c := fittest.Another(t)
	for name, by := range map[[2]string]float64{
		{"mma", "shared_bytes"}: 0.4, {"mma", "reduce"}: 4, {"mma", "edge"}: 0.3, {"mma", "overlap"}: 0.4, {"gemv", "start"}: 2.5, {"mma", "launch"}: 0.3,
	} {
		q := c.Models[name[0]].Constants[name[1]]
		q.Value *= by
		c.Models[name[0]].Constants[name[1]] = q
	}
	return c
}

func run(t *testing.T, c *calibratetest.Card, limit time.Duration) *calibrate.Result {
	t.Helper()
	r, err := calibrate.Run(t.Context(), c, calibrate.Options{Limit: limit, Seed: 1, Program: "v1", Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A card whose constants are other ones gets its own, by which what is picked for other products is nearly the best.
func TestRun(t *testing.T) {
	c := card(odd(t))
	r := run(t, c, calibrate.Limit)
	if r.Seconds > calibrate.Limit.Seconds() || r.Cases < 30 || r.Times < 10*r.Cases/2 || len(r.Checks) < 25 || len(r.All) <= r.Times {
		t.Errorf("%d times of %d cases and %d checks in %v s, %d in all", r.Times, r.Cases, len(r.Checks), r.Seconds, len(r.All))
	}
	if r.Near.Card != "NVIDIA H200" || r.BeforeMeasured || !r.Kept() {
		t.Errorf("from %s, measured before %v, kept %v", r.Near.Card, r.BeforeMeasured, r.Kept())
	}
	for _, p := range r.Parts {
		if p.Verdict != calibrate.Better || p.After > 0.005 || p.After > p.Before || p.Cases < 5 {
			t.Errorf("%+v", p)
		}
	}
	if products := r.Parts[0]; products.Changed == 0 || products.Before < 0.01 {
		t.Errorf("no pick is another one: %+v", products)
	}
	after := r.After
	if after.Card != "NVIDIA A100" || after.Driver != "580.1" || after.Date != "2026-11-23" || after.Program != "v1" || after.From != "NVIDIA H200" || len(after.Measured) != 4 {
		t.Errorf("described as %+v", after)
	}
	if err := after.Plausible(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"mma": " cases: it meets those near the best within ", "hopper": "not fitted on this card, as on NVIDIA H200: "} {
		if got := after.Models[name].FittedTo; !strings.Contains(got, want) {
			t.Errorf("%s is fitted to %q, want %q in it", name, got, want)
		}
	}
	again := run(t, card(odd(t)), calibrate.Limit)
	if again.After.ID() != after.ID() {
		t.Error("the same times give other constants")
	}
	// What was found is where the next calibration begins.
	if err := calibration.Use(after); err != nil {
		t.Fatal(err)
	}
	defer calibration.Drop(a100.CC, a100.SMs, a100.Bandwidth)
	next := run(t, card(odd(t)), calibrate.Limit)
	if !next.BeforeMeasured || next.Before.ID() != after.ID() || next.Parts[0].Before > 0.003 || next.Near.Card != "NVIDIA H200" {
		t.Errorf("calibrated again: %v, %+v", next.BeforeMeasured, next.Parts)
	}
}

// turning is a card that becomes another one once constants are checked.
type turning struct {
	*calibratetest.Card
	into *calibration.Card
}

func (c turning) TimePlans(ctx context.Context, of candidates.Case, picks calibrate.Picks, rounds int, seed uint64) ([]candidates.Time, error) {
	if slices.Contains(calibrate.Held(c.Arch, 1), of) {
		c.Truth = c.into
	}
	return c.Card.TimePlans(ctx, of, picks, rounds, seed)
}

// New constants that pick slower plans than those in force are not kept, nor are those that there was no time to check.
func TestWorse(t *testing.T) {
	c := card(odd(t))
	c.Noise = 0
	r, err := calibrate.Run(t.Context(), turning{c, fittest.Reference(t)}, calibrate.Options{Limit: calibrate.Limit, Seed: 1, Program: "v1", Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	products := r.Parts[0]
	if products.Verdict != calibrate.Worse || products.Before != 0 || products.After == 0 {
		t.Errorf("%+v", products)
	}
	for _, name := range products.Models {
		if !maps.Equal(r.After.Models[name].Constants, r.Before.Models[name].Constants) {
			t.Errorf("the constants of %s are others", name)
		}
	}
	if r.Fitted.ID() == r.Before.ID() {
		t.Error("nothing new was found")
	}

	short := run(t, card(odd(t)), 100*time.Millisecond)
	if short.Kept() || short.Parts[0].Verdict != calibrate.Unchecked || short.After.ID() != short.Before.ID() || short.Cases < 8 {
		t.Errorf("in a tenth of a second: %d cases, %+v", short.Cases, short.Parts)
	}
}

// What fails on the card ends the calibration, and leaves nothing in force.
func TestFails(t *testing.T) {
	lost := errors.New("the card is lost")
	for after := range 60 {
		c := card(fittest.Reference(t))
		calls := 0
		c.Fail = func() error {
			if calls++; calls > after*5 {
				return lost
			}
			return nil
		}
		r, err := calibrate.Run(t.Context(), c, calibrate.Options{Limit: time.Second, Seed: 1, Now: c.Now})
		if err == nil {
			if after == 0 || r == nil {
				t.Error("the first failure was not told")
			}
			break
		}
		if r != nil || !errors.Is(err, lost) {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if _, used, _ := calibration.InForce(a100.CC, a100.SMs, a100.Bandwidth); used {
		t.Error("constants are in force that nobody kept")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := card(fittest.Reference(t))
	if _, err := calibrate.Run(ctx, c, calibrate.Options{Limit: time.Second, Seed: 1, Now: c.Now}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// Cases are those of a seed, can be, are run by some family on every card, and none that is held out is fitted to.
func TestCases(t *testing.T) {
	for _, a := range cudatest.Archs {
		fitted, held := calibrate.Fitted(a, 1), calibrate.Held(a, 1)
		if !slices.Equal(fitted, calibrate.Fitted(a, 1)) || !slices.Equal(held, calibrate.Held(a, 1)) {
			t.Errorf("%d: other cases for the same seed", a.CC)
		}
		if slices.Equal(held, calibrate.Held(a, 2)) || slices.Equal(fitted, calibrate.Fitted(a, 2)) {
			t.Errorf("%d: the same cases for another seed", a.CC)
		}
		seen := map[candidates.Case]bool{}
		for i, c := range slices.Concat(fitted, held) {
			if seen[c] {
				t.Errorf("%d: %v is there twice", a.CC, c)
			}
			seen[c] = true
			some := 0
			for _, f := range candidates.Families(c.Operation) {
				all, err := candidates.Expect(a, c, f)
				if err != nil {
					t.Fatal(err)
				}
				some += len(all)
			}
			if some == 0 && i >= len(fitted) && c.Operation == kernels.GEMM {
				t.Errorf("%d: no family runs %v", a.CC, c)
			}
		}
	}
}
