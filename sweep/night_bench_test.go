package sweep

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// byRules is the rules' designer, as the program connects it.
type byRules struct{ rules.Designer }

func (d byRules) Seeds(s PlannedSeries, choices results.Choices) (Batches, error) {
	return d.Designer.Seeds(s.SeriesKey, s.Ms, choices), nil
}

func (d byRules) More(plan *Plan, choices map[results.SeriesKey]results.Choices, cases []results.Case, samples []results.Sample) ([]results.Case, int, error) {
	asked := map[results.SeriesKey][]int{}
	for _, s := range plan.Series {
		if s.Infer {
			asked[s.SeriesKey] = s.Ms
		}
	}
	more, known, err := d.Look(asked, choices, cases, samples)
	return more, known.Inferred, err
}

// slots is how many tiles the accelerator of nights computes at the same time.
const slots = 132

// chosenTiling is what a library's heuristic with a liking for change takes for m: one of eighty
// kernels, a new one every dozen rows or so.
func chosenTiling(p kernels.Problem) (kind int, t kernels.Tiling) {
	stretch := uint64(math.Log2(float64(p.M))*24) + uint64(p.M/13)
	h := (stretch + uint64(p.N)*31 + uint64(p.K)) * 0x9e3779b97f4a7c15
	kind = int(h >> 32 % 80)
	t.Tile = [3]int{64 << (kind % 3), 64 << (kind / 3 % 3), 64}
	t.Split = 1 + kind/9%2
	tiles := (p.M + t.Tile[0] - 1) / t.Tile[0] * ((p.N + t.Tile[1] - 1) / t.Tile[1]) * t.Split
	t.Waves = float64(tiles) / slots
	return kind, t
}

// library is an accelerator with a library whose kernels' times are lines in waves, tiles and M.
func library(subjects int) *kerneltest.Device {
	var gemms []kerneltest.GemmConfig
	for k := range subjects {
		gemms = append(gemms, kerneltest.GemmConfig{
			Name:   fmt.Sprint("library", k),
			DTypes: []kernels.DType{kernels.BF16},
			Label: func(p kernels.Problem) string {
				kind, _ := chosenTiling(p)
				return fmt.Sprint("kernel", kind)
			},
			Tiling: func(p kernels.Problem) kernels.Tiling { _, t := chosenTiling(p); return t },
			Cost: func(p kernels.Problem) float64 {
				kind, t := chosenTiling(p)
				wave := 2 * float64(t.Tile[0]*t.Tile[1]) * float64(p.K/t.Split) / 5e12 * (1 + 0.3*float64(kind%7)/7)
				return 3e-6 + wave*math.Ceil(t.Waves) + 2e-9*float64(p.M)
			},
		})
	}
	return kerneltest.New(kerneltest.Config{Seed: 4, Gemms: gemms, Noise: kerneltest.Noise{Sigma: 0.002}, ClockMHz: 1700,
		LastLevelCacheBytes: 50 << 20, MemoryBytes: 140 << 30,
		Ceilings: kernels.Ceilings{ReadBandwidth: 4e12, Peaks: []kernels.Peak{{DType: kernels.BF16, FLOPS: 9e14, Origin: kernels.Measured}}}})
}

// BenchmarkNight sweeps every M to 32768 of one product through a library, by the rules' design, on a
// device without hardware: what it takes the host. NIGHT is the number of series, one by default.
func BenchmarkNight(b *testing.B) {
	series, err := strconv.Atoi(os.Getenv("NIGHT"))
	if err != nil {
		series = 1
	}
	for b.Loop() {
		d := library(series)
		yes := true
		p, err := NewPlan([]kernels.Device{d}, Options{Targets: []Target{{N: 4096, K: 4096}}, Batches: Batches(upTo(32768)), Infer: &yes,
			DTypes: []kernels.DType{kernels.BF16}, Seed: 1}, nil)
		if err != nil {
			b.Fatal(err)
		}
		run := newRun(b, p)
		began := time.Now()
		told, err := AskChoices(b.Context(), []kernels.Device{d}, p, nil, nil)
		if err == nil {
			err = told.Store(run)
		}
		if err != nil {
			b.Fatal(err)
		}
		asked := time.Since(began)
		ceilings, err := d.Ceilings(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		of := map[string]kernels.Ceilings{d.Spec().ID: ceilings}
		specs := []kernels.Spec{d.Spec()}
		looks := rules.LooksAt(p.Screening, p.Rounds)
		timed := &timing{Designer: byRules{rules.Designer{Config: rules.Default(), Ceilings: of, Devices: specs, Looks: looks, Seed: p.Seed, Launched: run.Cases}}}
		chooser := rules.OpenRows{Config: rules.Default(), Ceilings: of, Looks: looks, Devices: specs, Seed: p.Seed, Choices: told.Choices, Asked: map[results.SeriesKey][]int{}, Launched: run.Cases}
		for _, s := range p.Series {
			chooser.Asked[s.SeriesKey] = s.Ms
		}
		sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now, Designer: timed, Chooser: chooser}).Run(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		stretches := 0
		for _, c := range told.Choices {
			stretches += len(c)
		}
		b.ReportMetric(100*float64(sum.Known.Measured)/float64(sum.Known.Rows), "%measured")
		b.ReportMetric(timed.seeds.Seconds(), "s/seeds")
		b.ReportMetric(timed.longest.Seconds(), "s/look")
		b.ReportMetric(float64(timed.heap>>20), "MB/look")
		b.Logf("%d stretches told in %v; %+v, %d samples in %v of the device's time, %d looks of %v", stretches, asked, sum.Known, sum.Samples, sum.Wall, timed.looks, timed.all)
	}
}

// timing measures a designer.
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

func (t *timing) More(plan *Plan, choices map[results.SeriesKey]results.Choices, cases []results.Case, samples []results.Sample) ([]results.Case, int, error) {
	began := time.Now()
	more, inferred, err := t.Designer.More(plan, choices, cases, samples)
	took := time.Since(began)
	t.looks, t.all, t.longest = t.looks+1, t.all+took, max(t.longest, took)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.heap = max(t.heap, m.HeapAlloc)
	return more, inferred, err
}
