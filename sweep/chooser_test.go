package sweep

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/choose"
)

// At some Ms a noisy kernel is near the limit at which the rules report it.
func doubtful() *simulated.Device {
	return declared(func(c *simulated.Config) {
		c.Noise, c.ClockMHz = simulated.Disturbances{Sigma: 0.012}, 0
		c.Gemms = c.Gemms[:1]
		c.Gemms[0].Cost = simulated.Slow(simulated.Linear(1e10, 0), 120, 150, 1/0.95)
	})
}

func choosingPlan(d kernels.Device) (*Plan, error) {
	return hurriedPlan(d, "4:400:2", Options{Targets: []Target{{N: 64, K: 64}}, Screening: 7, BlockTarget: 200 * time.Microsecond})
}

// chosenAsAsked checks that every round after the screening measured exactly the chooser's rows for the
// samples before the last look. The result of a sweep then does not depend on restarts.
func chosenAsAsked(t *testing.T, p *Plan, run *results.Run) []results.Sample {
	t.Helper()
	cases, err := run.AddCases(p.Cases())
	if err != nil {
		t.Fatal(err)
	}
	samples, err := run.Samples(results.PhaseSweep)
	if err != nil {
		t.Fatal(err)
	}
	looks, look := results.Looks(p.Screening, p.Rounds), 0
	for round := range p.Rounds {
		var got, want []int64
		var before []results.Sample
		if slices.Contains(looks, round) {
			look = round
		}
		for _, s := range samples {
			if s.Round == round {
				got = append(got, s.CaseID)
			}
			if s.Round < look {
				before = append(before, s)
			}
		}
		if round < p.Screening {
			for _, c := range cases {
				want = append(want, c.ID)
			}
		} else if want, err = (choose.OpenRows{Config: rules.Default()}).Open(cases, before); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("round %d measured %d cases, the chooser says %d", round, len(got), len(want))
		}
	}
	return samples
}

func TestRulesChooseTheRounds(t *testing.T) {
	d := doubtful()
	p, err := choosingPlan(d)
	if err != nil {
		t.Fatal(err)
	}
	run := newRun(t, p)
	w := &watcher{}
	_, err = (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: w, Now: d.Now,
		Chooser: choose.OpenRows{Config: rules.Default()}}).Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	samples := chosenAsAsked(t, p, run)
	n := len(p.Cases())
	if least, most := n*p.Screening, n*p.Rounds; len(samples) <= least || len(samples) > (least+most)/2 {
		t.Errorf("%d samples of %d cases, want more than %d and much fewer than %d", len(samples), n, least, most)
	}
	if w.last.Done != w.last.Planned || w.last.Done != len(samples) {
		t.Errorf("progress ended at %d of %d, there are %d samples", w.last.Done, w.last.Planned, len(samples))
	}
	per, doubt := map[int64]int{}, 0
	for _, s := range samples {
		per[s.CaseID]++
	}
	cases, _ := run.Cases()
	for _, c := range cases {
		if c.M >= 120 && c.M <= 150 {
			doubt += per[c.ID]
		}
	}
	if mean := float64(doubt) / 16; mean < float64(p.Screening)+4 {
		t.Errorf("doubtful rows have %.1f samples, want several more than %d", mean, p.Screening)
	}
}

func TestKilledSweepChoosesAlike(t *testing.T) {
	kills := 8
	if testing.Short() {
		kills = 2
	}
	path := filepath.Join(t.TempDir(), "run.db")
	rng := rand.New(rand.NewPCG(2, 71))
	before := 0
	for kill := range kills {
		d := death{Samples: 1 + rng.IntN(10), Round: 7, After: time.Duration(rng.Int64N(int64(300 * time.Microsecond)))}
		if _, finished := start(t, path, chooseVariable+"=1", deathVariable+"="+d.String()); finished {
			t.Fatalf("the sweep was complete before kill %d: it is too short for this test", kill+1)
		}
		samples := stored(t, path)
		inside := len(slices.DeleteFunc(slices.Clone(samples), func(s results.Sample) bool { return s.Round < d.Round }))
		if inside < before+d.Samples {
			t.Fatalf("kill %d left %d samples of choice of %d before it, and %d were added", kill+1, inside, before, d.Samples)
		}
		before = inside
	}
	p, run := finished(t, path, chooseVariable+"=1")
	samples := chosenAsAsked(t, p, run)
	t.Logf("%d samples of %d cases; the last kill fell after %d samples of choice", len(samples), len(p.Cases()), before)
}
