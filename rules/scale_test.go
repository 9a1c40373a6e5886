package rules

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gemmaudit/gemmaudit/results"
)

// TestScaling holds the work of judging to n log n in the number of series. What is compared is the time that the process computes at
// n series and at 4n, which hardly depends on what else the machine does.
func TestScaling(t *testing.T) {
	if testing.Short() {
		t.Skip("judges thousands of series several times")
	}
	const n, most = 1000, 7.0
	small, large := manySeries(n), manySeries(4*n)
	cfg := Default()
	for _, tt := range []struct {
		name string
		run  func(Data) error
	}{
		{"audit", func(d Data) error {
			_, err := RunAudit(t.Context(), d, cfg, nil)
			return err
		}},
		{"splits", func(d Data) error {
			_, err := FindSplits(t.Context(), d, cfg, SplitOptions{}, nil)
			return err
		}},
		{"diff", func(d Data) error {
			_, err := Diff(d, d, cfg)
			return err
		}},
		{"diff of runs that have nothing in common", func(d Data) error {
			other := d
			other.Series = slices.Clone(d.Series)
			for i := range other.Series {
				other.Series[i].Key.Kernel = "other"
			}
			_, err := Diff(d, other, cfg)
			return err
		}},
		{"diff of kernels", func(d Data) error {
			_, err := DiffKernels(d, "even", "odd", cfg)
			return err
		}},
		{"baseline", func(d Data) error {
			a, err := RunAudit(t.Context(), d, cfg, nil)
			if err != nil {
				return err
			}
			if len(a.Findings) < len(d.Series)/2 {
				t.Fatalf("%d findings of %d series", len(a.Findings), len(d.Series))
			}
			a.Hold(d.Meta, a, d.Meta)
			a.Accept(NewProof(a, cfg, d.Samples()), cfg, d.Samples())
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			least := func(d Data) time.Duration {
				best := time.Duration(1<<63 - 1)
				for range 2 {
					before := computed(t)
					if err := tt.run(d); err != nil {
						t.Fatal(err)
					}
					best = min(best, computed(t)-before)
				}
				return best
			}
			a, b := least(small), least(large)
			t.Logf("%d series: %v, %d: %v", n, a, 4*n, b)
			if b > time.Duration(most*float64(a)) {
				t.Errorf("%v of computing for %d series, %v for %d: more than %g times as much", a, n, b, 4*n, most)
			}
		})
	}
}

// computed is the processor time that the process has taken.
func computed(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}

// manySeries is a run of so many series, each pair of one product on two kernels, every one with an anomalous row.
func manySeries(n int) Data {
	rng := rand.New(rand.NewPCG(7, 7))
	d := Data{Name: "many"}
	var id, seq int64
	for s := range n {
		key := syntheticKey
		key.N, key.Kernel = 64*(1+s/2), []string{"even", "odd"}[s%2]
		series := results.Series{Key: key}
		for r := range 6 {
			id++
			row := results.Row{Case: results.Case{ID: id, SeriesKey: key, M: 32 * (r + 1)}}
			us := 20 + float64(row.Case.M)
			if r == 3 {
				us *= 1.5
			}
			for round := range 5 {
				seq++
				row.Samples = append(row.Samples, results.Sample{CaseID: id, Phase: results.PhaseSweep, Round: round, Seq: seq, US: us * (1 + 0.002*rng.NormFloat64())})
			}
			series.Rows = append(series.Rows, row)
		}
		d.Series = append(d.Series, series)
	}
	slices.SortFunc(d.Series, func(a, b results.Series) int {
		if a.Key.Kernel != b.Key.Kernel {
			return map[bool]int{true: -1, false: 1}[a.Key.Kernel < b.Key.Kernel]
		}
		return a.Key.N - b.Key.N
	})
	return d
}

// TestMostAlike compares the search for the nearest pair of series with a comparison of all pairs.
func TestMostAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	draw := func() []results.Series {
		out := make([]results.Series, 1+rng.IntN(6))
		for i := range out {
			k := &out[i].Key
			*k = syntheticKey
			k.Device, k.Kernel = []string{"a", "b", "c"}[rng.IntN(3)], []string{"x", "y", "z"}[rng.IntN(3)]
			k.N, k.Threads, k.PackInside = 64*(1+rng.IntN(3)), rng.IntN(3), rng.IntN(2) == 0
		}
		return out
	}
	for range 500 {
		a, b := draw(), draw()
		wantX, wantY, least := -1, -1, len(identityNames)+1
		for x := range a {
			for y := range b {
				n := 0
				fx, fy := identityOf(a[x].Key), identityOf(b[y].Key)
				for i := range fx {
					if fx[i] != fy[i] {
						n++
					}
				}
				if n < least {
					wantX, wantY, least = x, y, n
				}
			}
		}
		if x, y := mostAlike(a, b); x != wantX || y != wantY {
			t.Fatalf("series %d and %d are the most alike, expected %d and %d:\n%v\n%v", x, y, wantX, wantY, a, b)
		}
	}
	if x, _ := mostAlike(nil, draw()); x >= 0 {
		t.Errorf("series %d of none", x)
	}
}
