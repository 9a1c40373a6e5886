package diff

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/baseline"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// Judging must be n log n in the number of series. Processor time at n and 4n series hardly depends on other
// load, except that idle processors help to collect garbage: it is not collected while the time runs.
func TestScaling(t *testing.T) {
	if testing.Short() {
		t.Skip("judges thousands of series several times")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(4 << 30))
	const n, most = 1000, 7.0
	small, large := manySeries(n), manySeries(4*n)
	auto, cfg := rules.Default(), rules.Default()
	cfg.Along = infer.AlongM // of so many N the default would make a few curves along N
	for _, tt := range []struct {
		name string
		run  func(infer.Data) error
	}{
		{"audit", func(d infer.Data) error {
			_, err := rules.RunAudit(t.Context(), d, cfg, nil)
			return err
		}},
		{"audit along another dimension", func(d infer.Data) error {
			_, err := rules.RunAudit(t.Context(), d, auto, nil)
			return err
		}},
		{"splits", func(d infer.Data) error {
			_, err := remedy.Find(t.Context(), d, cfg, remedy.Options{}, nil)
			return err
		}},
		{"diff", func(d infer.Data) error {
			_, err := Compare(d, d, cfg)
			return err
		}},
		{"diff of runs that have nothing in common", func(d infer.Data) error {
			other := d
			other.Series = slices.Clone(d.Series)
			for i := range other.Series {
				other.Series[i].Key.Kernel = "other"
			}
			_, err := Compare(d, other, cfg)
			return err
		}},
		{"diff of kernels", func(d infer.Data) error {
			_, err := CompareKernels(d, "even", "odd", cfg)
			return err
		}},
		{"baseline", func(d infer.Data) error {
			a, err := rules.RunAudit(t.Context(), d, cfg, nil)
			if err != nil {
				return err
			}
			if len(a.Findings) < len(d.Series)/2 {
				t.Fatalf("%d findings of %d series", len(a.Findings), len(d.Series))
			}
			baseline.Hold(a, d.Meta, a, d.Meta)
			a.Accept(rules.NewProof(a, cfg, d.Samples()), cfg, d.Samples())
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			once := func(d infer.Data) time.Duration {
				runtime.GC()
				before := computed(t)
				if err := tt.run(d); err != nil {
					t.Fatal(err)
				}
				return computed(t) - before
			}
			a, b := min(once(small), once(small)), once(large)
			if b > time.Duration(most*float64(a)) { // other load may have disturbed it
				b = min(b, once(large))
			}
			t.Logf("%d series: %v, %d: %v", n, a, 4*n, b)
			if b > time.Duration(most*float64(a)) {
				t.Errorf("%v of computing for %d series, %v for %d: more than %g times as much", a, n, b, 4*n, most)
			}
		})
	}
}

func computed(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano())
}

func manySeries(n int) infer.Data {
	rng := rand.New(rand.NewPCG(7, 7))
	d := infer.Data{Name: "many"}
	var id, seq int64
	for s := range n {
		key := synthetic.Key
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
				row.Samples = append(row.Samples,
					results.Sample{CaseID: id, Phase: results.PhaseSweep, Round: round, Seq: seq, US: us * (1 + 0.002*rng.NormFloat64())})
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

func TestMostAlike(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	draw := func() []results.Series {
		out := make([]results.Series, 1+rng.IntN(6))
		for i := range out {
			k := &out[i].Key
			*k = synthetic.Key
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
