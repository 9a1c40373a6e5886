package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/choose"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

const slots = 132

// Like a library's heuristic, chosenTiling picks one of eighty kernels and changes about every dozen rows.
func chosenTiling(p kernels.Task) (kind int, t kernels.Tiling) {
	stretch := uint64(math.Log2(float64(p.M))*24) + uint64(p.M/13)
	h := (stretch + uint64(p.N)*31 + uint64(p.K)) * 0x9e3779b97f4a7c15
	kind = int(h >> 32 % 80)
	t.Tile = [3]int{64 << (kind % 3), 64 << (kind / 3 % 3), 64}
	t.Split = 1 + kind/9%2
	tiles := (p.M + t.Tile[0] - 1) / t.Tile[0] * ((p.N + t.Tile[1] - 1) / t.Tile[1]) * t.Split
	t.Waves = float64(tiles) / slots
	return kind, t
}

// library is an accelerator whose kernel times are linear in waves, tiles and M.
func library(subjects int, noise float64) *simulated.Device {
	var gemms []simulated.KernelConfig
	for k := range subjects {
		gemms = append(gemms, simulated.KernelConfig{
			Name:   fmt.Sprint("library", k),
			DTypes: []kernels.DType{kernels.BF16},
			Label: func(p kernels.Task) string {
				kind, _ := chosenTiling(p)
				return fmt.Sprint("kernel", kind)
			},
			Tiling: func(p kernels.Task) kernels.Tiling { _, t := chosenTiling(p); return t },
			Cost: func(p kernels.Task) float64 {
				kind, t := chosenTiling(p)
				wave := 2 * float64(t.Tile[0]*t.Tile[1]) * float64(p.K/t.Split) / 5e12 * (1 + 0.3*float64(kind%7)/7)
				return 3e-6 + wave*math.Ceil(t.Waves) + 2e-9*float64(p.M)
			},
		})
	}
	return simulated.New(simulated.Config{Seed: 4, Gemms: gemms, Noise: simulated.Disturbances{Sigma: noise}, ClockMHz: 1700,
		LastLevelCacheBytes: 50 << 20, MemoryBytes: 140 << 30,
		Ceilings: kernels.Ceilings{ReadBandwidth: 4e12,
			Peaks: []kernels.Peak{{DType: kernels.BF16, FLOPS: 9e14, Origin: kernels.Measured}}}})
}

func ruled(tb testing.TB, d kernels.Device, p *Plan, run *results.Run) *Runner {
	tb.Helper()
	ceilings, err := d.Ceilings(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	choices, err := run.Choices()
	if err != nil {
		tb.Fatal(err)
	}
	chooser := choose.OpenRows{Config: rules.Default(), Ceilings: map[string]kernels.Ceilings{d.Spec().ID: ceilings},
		Devices: []kernels.Spec{d.Spec()},
		Looks:   infer.LooksAt(p.Screening, p.Rounds), Seed: p.Seed, Choices: choices, Asked: map[results.SeriesKey][]int{},
		Launched: run.Cases}
	for _, s := range p.Series {
		chooser.Asked[s.SeriesKey] = s.Ms
	}
	return &Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Chooser: chooser, Designer: choose.Designer{Config: chooser.Config,
		Ceilings: chooser.Ceilings, Devices: chooser.Devices, Looks: chooser.Looks, Seed: p.Seed, Launched: run.Cases}}
}

func told(tb testing.TB, d kernels.Device, p *Plan, run *results.Run) Told {
	tb.Helper()
	told, err := AskChoices(tb.Context(), []kernels.Device{d}, p, Asking{})
	if err == nil {
		err = told.Store(run)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return told
}

func TestInterruptedNightIsTheSame(t *testing.T) {
	if !testing.Short() {
		t.Run("worth", func(t *testing.T) { interruptedNight(t, nil) })
	}
	t.Run("traffic", func(t *testing.T) {
		interruptedNight(t, results.Traffic{{M: 50, Weight: 1}, {M: 200, Weight: 5}, {M: 300, Weight: 1}})
	})
}

func interruptedNight(t *testing.T, traffic results.Traffic) {
	yes := true
	sweep := func(stops ...int) map[string]int {
		d := library(2, 0)
		p := planned(t, d, "1:300", func(o *Options) {
			o.Infer, o.DTypes, o.Rounds, o.Screening, o.Targets = &yes, []kernels.DType{kernels.BF16}, 15, 7, []Target{{N: 1024, K: 1024}}
		})
		p.Step, p.Traffic = 2*time.Second, traffic
		if traffic != nil {
			p.Step /= 20
		}
		run := newRun(t, p)
		told(t, d, p, run)
		for _, stop := range append(stops, 0) {
			ctx, cancel := context.WithCancel(t.Context())
			r := ruled(t, d, p, run)
			r.Now, r.Observer = d.Now, &watcher{at: func(n int) {
				if n == stop {
					cancel()
				}
			}}
			_, err := r.Run(ctx)
			cancel()
			var interrupted *InterruptedError
			if stop == 0 && err != nil || stop > 0 && !errors.As(err, &interrupted) {
				t.Fatalf("stopped after %d: %v", stop, err)
			}
		}
		cases, err := run.Cases()
		if err != nil {
			t.Fatal(err)
		}
		name := map[int64]string{}
		for _, c := range cases {
			name[c.ID] = c.String()
		}
		samples, err := run.Samples(results.PhaseSweep)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int{}
		for _, s := range samples {
			out[fmt.Sprintf("%s round %d", name[s.CaseID], s.Round)]++
		}
		return out
	}
	whole, parts := sweep(), sweep(3, 300, 200, 90)
	if len(whole) < 700 || !maps.Equal(whole, parts) {
		for name, n := range whole {
			if parts[name] != n {
				t.Logf("%s: %d and %d samples", name, n, parts[name])
			}
		}
		t.Errorf("%d samples without an interruption, %d with some", len(whole), len(parts))
	}
}

// BenchmarkNight measures the host's cost of a sweep over every M to 32768 of one product on a simulated
// device. NIGHT is the number of series, one by default.
func BenchmarkNight(b *testing.B) {
	series, err := strconv.Atoi(os.Getenv("NIGHT"))
	if err != nil {
		series = 1
	}
	for b.Loop() {
		d := library(series, 0.002)
		yes := true
		p, err := NewPlan(b.Context(), []kernels.Device{d},
			Options{Targets: []Target{{N: 4096, K: 4096}}, Batches: Batches(upTo(32768)), Infer: &yes,
				DTypes: []kernels.DType{kernels.BF16}, Seed: 1}, nil)
		if err != nil {
			b.Fatal(err)
		}
		run := newRun(b, p)
		began := time.Now()
		stretches := 0
		for _, c := range told(b, d, p, run).Choices {
			stretches += len(c)
		}
		asked := time.Since(began)
		r := ruled(b, d, p, run)
		timed := &timing{Designer: r.Designer}
		r.Designer, r.Now = timed, d.Now
		sum, err := r.Run(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(100*float64(sum.Known.Measured)/float64(sum.Known.Rows), "%measured")
		b.ReportMetric(timed.seeds.Seconds(), "s/seeds")
		b.ReportMetric(timed.longest.Seconds(), "s/look")
		b.ReportMetric(float64(timed.heap>>20), "MB/look")
		b.Logf("%d stretches told in %v; %+v, %d samples in %v of the device's time, %d looks of %v", stretches, asked, sum.Known,
			sum.Samples, sum.Wall, timed.looks, timed.all)
	}
}

type timing struct {
	Designer
	seeds, longest, all time.Duration
	looks               int
	heap                uint64
}

func (t *timing) Seeds(s PlannedSeries, choices results.Choices) (Batches, error) {
	began := time.Now()
	defer func() { t.seeds += time.Since(began) }()
	return t.Designer.Seeds(s, choices)
}

func (t *timing) More(series []PlannedSeries, choices map[results.SeriesKey]results.Choices, cases []results.Case,
	samples []results.Sample) ([]results.Case, int, error) {
	began := time.Now()
	more, inferred, err := t.Designer.More(series, choices, cases, samples)
	took := time.Since(began)
	t.looks, t.all, t.longest = t.looks+1, t.all+took, max(t.longest, took)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.heap = max(t.heap, m.HeapAlloc)
	return more, inferred, err
}
