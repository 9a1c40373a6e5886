package diff

import (
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// At most one in twenty pairs of equal runs with one sample per row has a suspected case or series.
func TestFlatPairsAreNotSuspected(t *testing.T) {
	seeds := uint64(120)
	if testing.Short() {
		seeds = 60
	}
	for _, sigma := range []float64{0.01, 0.02, 0.03, 0.05} {
		for name, ms := range map[string][]int{"64 rows": synthetic.Grid(16, 1024, 16), "12 rows": synthetic.Grid(64, 768, 64),
			"8 rows": synthetic.Grid(128, 1024, 128),
			"1 row":  {512}} {
			flat := func(_ string, m int) float64 { return 20 + float64(m) }
			suspected := uint64(0)
			for seed := range seeds {
				d, err := Compare(synthetic.Once(2*seed, sigma, ms, flat), synthetic.Once(2*seed+1, sigma, ms, flat), rules.Default())
				if err != nil {
					t.Fatal(err)
				}
				if d.Undecided != len(d.Cases) || d.Slower+d.Faster+d.Same > 0 || d.Gate {
					t.Fatalf("%d of %d cases are undecided", d.Undecided, len(d.Cases))
				}
				some := false
				for _, c := range d.Cases {
					some = some || c.Change.Changed()
					if c.Scatter == "" || c.Ratio.Hi/c.Ratio.Lo < 1.02 || c.A.Hi/c.A.Lo < 1.02 {
						t.Fatalf("m%d of one sample is certain: %+v", c.M, c)
					}
				}
				for _, s := range d.Series {
					some = some || s.Change.Changed()
				}
				if some {
					suspected++
				}
			}
			t.Logf("%s, noise of %g: %d of %d pairs have a suspect", name, sigma, suspected, seeds)
			if 20*suspected > seeds {
				t.Errorf("%s, noise of %g: %d of %d pairs have a suspect", name, sigma, suspected, seeds)
			}
		}
	}
}

// Changes far beyond the scatter are suspected, with the right origin, and the geometric mean over rows is
// always there.
func TestSuspectedChanges(t *testing.T) {
	flat := func(_ string, m int) float64 { return 20 + float64(m) }
	for _, c := range []struct {
		name    string
		ms      []int
		us      func(kernel string, m int) float64
		origin  infer.ScatterOrigin
		change  change.Kind
		slow    int
		geomean float64
	}{
		{"every row twice as slow, few rows", synthetic.Grid(128, 1024, 128), func(k string, m int) float64 { return 2 * flat(k, m) },
			infer.AssumedScatter,
			change.SuspectedSlower, 16, 2},
		{"every row twice as slow, many rows", synthetic.Grid(16, 1024, 16), func(k string, m int) float64 { return 2 * flat(k, m) },
			infer.BorrowedScatter,
			change.SuspectedSlower, 128, 2},
		{"every row half the time", synthetic.Grid(16, 1024, 16), func(k string, m int) float64 { return flat(k, m) / 2 },
			infer.BorrowedScatter,
			change.SuspectedFaster, 128, 0.5},
		{"one row of one kernel", synthetic.Grid(16, 1024, 16), func(k string, m int) float64 {
			if k == "a" && m == 512 {
				return 1.5 * flat(k, m)
			}
			return flat(k, m)
		}, infer.BorrowedScatter, change.SuspectedSlower, 1, 1},
		// A step in both curves, as from a change of tile, is not scatter of their ratio.
		{"stairs", synthetic.Grid(16, 1024, 16), func(k string, m int) float64 { return 1.4 * flat(k, m) }, infer.BorrowedScatter,
			change.SuspectedSlower, 128,
			1.4},
	} {
		a := synthetic.Once(1, 0.02, c.ms, func(k string, m int) float64 {
			if c.name == "stairs" && m/128%2 == 1 {
				return 1.5 * flat(k, m)
			}
			return flat(k, m)
		})
		b := synthetic.Once(2, 0.02, c.ms, func(k string, m int) float64 {
			if c.name == "stairs" && m/128%2 == 1 {
				return 1.5 * c.us(k, m)
			}
			return c.us(k, m)
		})
		d, err := Compare(a, b, rules.Default())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, x := range d.Cases {
			if x.Change == c.change && x.Scatter == c.origin {
				n++
			}
		}
		if n < c.slow || n > c.slow+1 || d.Undecided != len(d.Cases) || d.Gate {
			t.Errorf("%s: %d cases are %s by %s scatter, want %d; %d of %d undecided", c.name, n, c.change, c.origin, c.slow, d.Undecided,
				len(d.Cases))
		}
		for _, s := range d.Series {
			if math.Abs(math.Log(s.OverRows.Mid/c.geomean)) > 0.03 || !(s.OverRows.Lo < c.geomean && c.geomean < s.OverRows.Hi) {
				t.Errorf("%s: geometric mean %+v, want %g", c.name, s.OverRows, c.geomean)
			}
		}
	}
}

// A has five samples per row and B one: B's scatter is not A's.
func TestOneSideOfSamples(t *testing.T) {
	flat := func(_ string, m int) float64 { return 20 + float64(m) }
	ms := synthetic.Grid(16, 1024, 16)
	rounds := synthetic.Once(0, 0.002, ms, flat)
	for seed := range uint64(6) {
		for i, s := range synthetic.Once(seed+1, 0.002, ms, flat).Series {
			for k := range s.Rows {
				x := s.Rows[k].Samples[0]
				x.Round = int(seed + 1)
				rounds.Series[i].Rows[k].Samples = append(rounds.Series[i].Rows[k].Samples, x)
			}
		}
	}
	for seed := range uint64(20) {
		d, err := Compare(rounds, synthetic.Once(100+seed, 0.05, ms, flat), rules.Default())
		if err != nil {
			t.Fatal(err)
		}
		if n := d.SuspectedSlower + d.SuspectedFaster; n > 2 || d.Slower+d.Faster+d.Same > 0 {
			t.Errorf("seed %d: %d suspected, %d slower, %d faster of nothing but noise", seed, n, d.Slower, d.Faster)
		}
	}
}

func TestOverRows(t *testing.T) {
	equal := []stats.Estimate{{Y: 0.5, SE: 0.05, DF: 8, Open: 0}, {Y: 0.5, SE: 0.05, DF: 8, Open: 0}, {Y: 0.5, SE: 0.05, DF: 8, Open: 0},
		{Y: 0.5, SE: 0.05, DF: 8, Open: 0}}
	none := make([]float64, 4)
	if g := overRows(equal, none, 0.95); !(g.Lo < 0.97*g.Mid && g.Hi > 1.03*g.Mid) {
		t.Errorf("rows that agree to the digit: %+v", g)
	}
	if g := overRows(equal[:1], none, 0.95); math.Abs(math.Log(g.Hi/g.Mid)-2.306*0.05) > 1e-3 {
		t.Errorf("one row: %+v", g)
	}
	apart := []stats.Estimate{{Y: -0.2, SE: 0.001, DF: 8, Open: 0}, {Y: 0, SE: 0.001, DF: 8, Open: 0}, {Y: 0.2, SE: 0.001, DF: 8, Open: 0}}
	if g := overRows(apart, none, 0.95); math.Abs(math.Log(g.Hi)-4.303*0.2/math.Sqrt(3)) > 1e-2 {
		t.Errorf("rows that differ: %+v, want Student's t over them", g)
	}
	if g := overRows(nil, nil, 0.95); g != (stats.Interval{}) {
		t.Errorf("of nothing: %+v", g)
	}
}
