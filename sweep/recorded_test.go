package sweep

import (
	"slices"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// Each M below the largest comes with the other part of its split; pads are larger.
func TestNeighboursMakeSplits(t *testing.T) {
	for m := 1; m <= 3000; m++ {
		ms := withNeighbours(m)
		if !slices.IsSorted(ms) || !ms.Has(m) || len(slices.Compact(slices.Clone(ms))) != len(ms) {
			t.Fatalf("m%d: %v", m, ms)
		}
		above := false
		for _, n := range ms {
			above = above || n > m
			if n < 1 {
				t.Errorf("m%d: %v has m%d", m, ms, n)
			}
			if n < m && !ms.Has(m-n) {
				t.Errorf("m%d: %v has no other part for %d", m, ms, n)
			}
		}
		if !above {
			t.Errorf("m%d: %v has no pad", m, ms)
		}
	}
	if got := neighbours(results.MaxM); slices.Max(got) > results.MaxM {
		t.Errorf("%v exceeds the largest M", got)
	}
}

// Products with the most time stay, large M or small.
func TestRecordedIsThinnedByWorth(t *testing.T) {
	var targets []Target
	var recorded results.Recorded
	for m := 16; m <= 1600; m += 16 {
		targets = append(targets, Target{N: 1024, K: 1024, M: m, DType: kernels.BF16})
		calls := 1.
		if m == 800 || m == 400 {
			calls = 1e6
		}
		recorded = append(recorded,
			results.RecordedProduct{RecordedKey: results.RecordedKey{DType: kernels.BF16, N: 1024, K: 1024, M: m}, Calls: calls})
	}
	d := library(1, 0.002)
	est := NewPredictor(map[string]kernels.Ceilings{})
	o := Options{Preset: "quick", Targets: targets, Recorded: recorded, Neighbours: true, Deadline: time.Minute, Budget: 4 * time.Second}
	p, err := NewPlan(t.Context(), []kernels.Device{d}, o, est)
	if err != nil {
		t.Fatal(err)
	}
	ms := p.Series[0].Ms
	if !ms.Has(400) || !ms.Has(800) || len(ms) >= len(targets) {
		t.Errorf("%d of %d Ms stay: %v", len(ms), len(targets), ms)
	}
	if took := est.Plan(p, nil, CacheSizes([]kernels.Device{d})).Expected; took > o.Budget {
		t.Errorf("it takes %v, expected at most %v", took, o.Budget)
	}
	for _, r := range p.Recorded {
		if !(r.ExpectedUS > 0) {
			t.Errorf("%v has no expected time", r)
		}
	}
	waiting := p.waiting(nil, nil)
	if first := waiting[0].M; first != 800 {
		t.Errorf("m%d is measured first, expected m800, which takes most of the time", first)
	}
	back, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodePlan(back); err != nil {
		t.Error(err)
	}
}

// The device needs twelve times the predicted time, and the deadline is far too short. The heaviest product
// and its pad are still measured in full.
func TestSlowDeviceMeasuresItsHeaviestProduct(t *testing.T) {
	product := func(m, n int, calls float64) results.RecordedProduct {
		return results.RecordedProduct{RecordedKey: results.RecordedKey{DType: kernels.BF16, N: n, K: 4096, M: m}, Calls: calls}
	}
	recorded := results.Recorded{product(256, 2048, 100), product(512, 4096, 100), product(256, 1024, 100), product(16, 512, 1)}
	var targets []Target
	for _, r := range recorded {
		targets = append(targets, Target{N: r.N, K: r.K, M: r.M, DType: r.DType})
	}
	for _, c := range []struct {
		deadline, lead time.Duration
		least          int // cases with all rounds of the screening
	}{{20 * time.Second, 0, 3}, {5 * time.Second, 14 * time.Second, 2}} {
		d := declared(func(c *simulated.Config) {
			c.Gemms = []simulated.KernelConfig{{Name: "slow", Cost: func(p kernels.Task) float64 {
				return 12 * 2 * float64(p.M) * float64(p.N) * float64(p.K) / 0.5e12
			}}}
		})
		ceilings, err := d.Ceilings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Preset: "quick", Targets: targets, Recorded: recorded, Neighbours: true, Deadline: c.deadline, Budget: c.deadline,
			Lead: c.lead, DTypes: []kernels.DType{kernels.BF16}}
		p, err := NewPlan(t.Context(), []kernels.Device{d}, o, NewPredictor(map[string]kernels.Ceilings{d.Spec().ID: ceilings}))
		if err != nil {
			t.Fatal(err)
		}
		run := newRun(t, p)
		r := ruled(t, d, p, run)
		r.Now = d.Now
		began := d.Now()
		sum, err := r.Run(t.Context())
		if err != nil || sum.Status != StatusDeadline {
			t.Fatalf("%+v, %v", sum, err)
		}
		if took := d.Now().Sub(began); took > max(c.deadline, c.lead)+time.Second/2 {
			t.Errorf("a deadline of %v ended after %v", c.deadline, took)
		}
		series, err := run.Series()
		if err != nil {
			t.Fatal(err)
		}
		whole := map[int]bool{}
		all := 0
		for _, s := range series {
			for _, row := range s.Rows {
				if len(row.Samples) < p.Screening {
					continue
				}
				if all++; s.Key.N == 4096 {
					whole[row.Case.M] = true
				}
			}
		}
		if !whole[512] || !whole[528] || all < c.least {
			t.Errorf("deadline %v: %d cases are measured in full, of the heaviest product the Ms %v", c.deadline, all, whole)
		}
	}
}
