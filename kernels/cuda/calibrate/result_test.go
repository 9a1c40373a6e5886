package calibrate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/fitting/fittest"
)

// A part's constants are kept where its picks are faster on average, or the same, and none loses much.
func TestDecide(t *testing.T) {
	product, prompt := candidates.Case{Subject: kernels.Product(kernels.BF16, 64, 64), M: 1}, candidates.Case{Subject: kernels.Subject{Operation: kernels.AttentionPrefill}, M: 1}
	check := func(c candidates.Case, before, after, best float64) Check {
		return Check{Case: c, Before: Timed{"a", "x", before}, After: Timed{"a", map[bool]string{true: "x", false: "y"}[before == after], after}, Best: Timed{"a", "z", best}}
	}
	for name, c := range map[string]struct {
		checks              []Check
		products, attention Verdict
		changed             int
		before, after, lost float64
	}{
		"nothing":                  {nil, Unchecked, Unchecked, 0, 0, 0, 0},
		"the same":                 {[]Check{check(product, 11, 11, 10)}, Better, Unchecked, 0, 0.1, 0.1, 0},
		"faster":                   {[]Check{check(product, 12, 10, 10), check(prompt, 1, 1, 1)}, Better, Better, 1, 0.2, 0, 0},
		"slower":                   {[]Check{check(product, 10, 10.5, 10), check(prompt, 2, 1, 1)}, Worse, Better, 1, 0, 0.05, 0.05},
		"faster on average":        {[]Check{check(product, 12, 10, 10), check(product, 10, 10.5, 10)}, Better, Unchecked, 2, 0.1, 0.025, 0.05},
		"faster, but one is lost":  {[]Check{check(product, 15, 10, 10), check(product, 10, 11, 10)}, Worse, Unchecked, 2, 0.25, 0.05, 0.1},
		"slower for attention":     {[]Check{check(product, 10, 10, 10), check(prompt, 10, 10.1, 10)}, Better, Worse, 0, 0, 0, 0},
		"slower, and faster again": {[]Check{check(product, 10, 10.1, 10), check(product, 10.2, 10, 10)}, Better, Unchecked, 2, 0.01, 0.005, 0.01},
	} {
		r := &Result{Before: fittest.Reference(t), After: fittest.Another(t), Checks: c.checks}
		new := fittest.Another(t)
		r.decide()
		p := r.Parts[0]
		near := func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }
		if p.Verdict != c.products || r.Parts[1].Verdict != c.attention || p.Changed != c.changed || !near(p.Before, c.before) || !near(p.After, c.after) || !near(p.Lost, c.lost) {
			t.Errorf("%s: %+v", name, r.Parts)
		}
		if r.Kept() != (c.products == Better || c.attention == Better) {
			t.Errorf("%s: kept %v", name, r.Kept())
		}
		for _, part := range r.Parts {
			for _, model := range part.Models {
				want := r.Before
				if part.Verdict == Better {
					want = new
				}
				for constant, q := range want.Models[model].Constants {
					if r.After.Models[model].Constants[constant] != q {
						t.Errorf("%s: %s %s is %v, want %v", name, model, constant, r.After.Models[model].Constants[constant], q)
					}
				}
			}
		}
	}
}

// Every model belongs to one part.
func TestParts(t *testing.T) {
	seen := map[string]int{}
	for _, p := range parts {
		for _, name := range p.models {
			seen[name]++
		}
	}
	for name := range fittest.Reference(t).Models {
		if seen[name] != 1 {
			t.Errorf("%s belongs to %d parts", name, seen[name])
		}
		delete(seen, name)
	}
	if len(seen) > 0 {
		t.Errorf("%v are no models", seen)
	}
}

// What is timed first has what is picked, each plan once, and no more of a slow family than a few.
func TestChoose(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, a := range cudatest.Archs {
		for _, c := range Fitted(a, 1) {
			all, err := expect(a, c, fittest.Reference(t))
			if err != nil {
				t.Fatal(err)
			}
			plans := fastest(c, all)
			picks := choose(c, all, rng)
			if len(plans) == 0 {
				if picks.count() > 0 {
					t.Errorf("%v: %v of nothing", c, picks)
				}
				continue
			}
			if !slices.Contains(picks[plans[0].family], plans[0].index) {
				t.Errorf("%v: %v without %s %s", c, picks, plans[0].family, plans[0].Label)
			}
			for family, indices := range picks {
				most := bestPlans + drawnPlans
				if all[family][0].Seconds > muchSlower*plans[0].Seconds {
					most = slowPlans
				}
				if len(indices) == 0 || len(indices) > most || len(slices.Compact(slices.Sorted(slices.Values(indices)))) != len(indices) {
					t.Errorf("%v: %v of %s", c, indices, family)
				}
			}
		}
	}
}
