package rules

import (
	"context"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// At most one flat run in twenty has a suspect, at any noise.
func TestFlatRunsAreNotSuspected(t *testing.T) {
	seeds := 120
	if testing.Short() {
		seeds = 60
	}
	for _, sigma := range []float64{0.01, 0.02, 0.03, 0.05} {
		for name, ms := range map[string][]int{"64 rows": synthetic.Grid(16, 1024, 16), "16 rows": synthetic.Grid(128, 2048, 128),
			"8 rows": synthetic.Grid(128, 1024, 128)} {
			suspected := 0
			for seed := range uint64(seeds) {
				a, err := RunAudit(context.Background(), synthetic.Once(seed, sigma, ms, func(_ string,
					m int) float64 {
					return float64(m)
				}),
					Default(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if a.Undecided != a.Cases {
					t.Fatalf("%d of %d rows are undecided", a.Undecided, a.Cases)
				}
				for _, f := range a.Findings {
					if f.Status != Suspected || f.Scatter == "" {
						t.Fatalf("%s is %q by scatter %q", f.ID, f.Status, f.Scatter)
					}
				}
				if len(a.Findings) > 0 {
					suspected++
				}
			}
			t.Logf("%s, noise of %g: %d of %d runs have a suspect", name, sigma, suspected, seeds)
			if 20*suspected > seeds {
				t.Errorf("%s, noise of %g: %d of %d runs have a suspect", name, sigma, suspected, seeds)
			}
		}
	}
}

func TestSuspects(t *testing.T) {
	flat := func(_ string, m int) float64 { return float64(m) }
	for _, c := range []struct {
		name  string
		rule  Rule
		us    func(kernel string, m int) float64
		m     int
		sigma float64
	}{
		{"half as fast", Monotonic, func(k string, m int) float64 {
			if k == "a" && m == 512 {
				return 2 * float64(m)
			}
			return flat(k, m)
		}, 512, 0.02},
		{"a larger M is faster", Pad, func(k string, m int) float64 {
			if k == "a" && m == 512 {
				return 3 * float64(m)
			}
			return flat(k, m)
		}, 512, 0.02},
		{"two halves are faster", SplitRule, func(k string, m int) float64 {
			if k == "a" && m > 900 {
				return 1.5 * float64(m)
			}
			return flat(k, m)
		}, 1024, 0.02},
		{"another kernel is faster", Alternative, func(k string, m int) float64 {
			if k == "a" {
				return 1.85 * float64(m)
			}
			return flat(k, m)
		}, 512, 0.03},
	} {
		for rows, ms := range map[int][]int{64: synthetic.Grid(16, 1024, 16), 16: synthetic.Grid(128, 2048, 128),
			8: synthetic.Grid(128, 1024, 128)} {
			origin, found := infer.BorrowedScatter, 0
			if rows < infer.BorrowRows {
				origin = infer.AssumedScatter
			}
			for seed := range uint64(20) {
				a, err := RunAudit(context.Background(), synthetic.Once(seed, c.sigma, ms, c.us), Default(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range a.Findings {
					if f.Rule == c.rule && f.Series.Kernel == "a" && f.FromM <= c.m && c.m <= f.ToM && f.Status == Suspected &&
						f.Scatter == origin {
						found++
						break
					}
				}
			}
			if found < 18 {
				t.Errorf("%s, %d rows: suspected in %d of 20 runs", c.name, rows, found)
			}
		}
	}
}
