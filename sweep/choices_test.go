package sweep

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// tellers is a device with one kernel that reports choice for every product, and two that report none.
func tellers(id string, choice func(p kernels.Task) (kernels.Choice, error)) *simulated.Device {
	cost := simulated.Linear(1e10, 0)
	return simulated.New(simulated.Config{ID: id, Gemms: []simulated.KernelConfig{
		{Name: "teller", Cost: cost, MaxM: 40, Choice: choice}, {Name: "mute", Cost: cost},
	}})
}

func TestManyTellers(t *testing.T) {
	const most = 3000
	for _, c := range []struct {
		name  string
		fails func(m int) error
		least int // asked
		why   string
	}{
		{"all tell", func(int) error { return nil }, most, ""},
		{"some fail", func(m int) error {
			if m%500 == 499 {
				return errors.New("busy")
			}
			return nil
		}, most, "m499: busy"},
		{"many fail", func(m int) error {
			if m > 1000 && m%2 == 1 {
				return errors.New("busy")
			}
			return nil
		}, 1015, "m1001: busy"},
		{"not one", func(int) error { return &kernels.Unsupported{Kernel: "teller", Reason: "not on this card"} }, most,
			"not on this card"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked atomic.Int64
			d := simulated.New(simulated.Config{ID: "sim:0",
				Gemms: []simulated.KernelConfig{{Name: "teller", Cost: simulated.Linear(1e10, 0),
					Choice: func(p kernels.Task) (kernels.Choice, error) {
						asked.Add(1)
						return kernels.Choice{Label: strconv.Itoa(p.M / 7 % 3)}, c.fails(p.M)
					}}}})
			var ms Batches
			for m := range most {
				ms = append(ms, m+1)
			}
			plan, err := NewPlan(t.Context(), []kernels.Device{d},
				Options{Targets: []Target{{N: 64, K: 64}}, Batches: ms, DTypes: []kernels.DType{kernels.FP32}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			told, err := AskChoices(t.Context(), []kernels.Device{d}, plan, Asking{})
			if err != nil {
				t.Fatal(err)
			}
			key := results.SeriesKey{Device: "sim:0", Kernel: "teller", Subject: kernels.Product(kernels.FP32, 64, 64),
				Regime: results.Engine}
			if told.Asked != c.least || asked.Load() < int64(c.least) {
				t.Errorf("%d counted and %d asked, want %d", told.Asked, asked.Load(), c.least)
			}
			if got := told.Untold[key]; got != c.why && !strings.HasSuffix(got, c.why) || (got == "") != (c.why == "") {
				t.Errorf("untold: %q, want %q", got, c.why)
			}
			var want results.Choices
			for m := 1; m <= c.least; m++ {
				if c.fails(m) != nil {
					continue
				}
				kind := results.LaunchKind{Label: strconv.Itoa(m / 7 % 3)}
				if n := len(want); n > 0 && want[n-1].To == m-1 && want[n-1].Kind == kind {
					want[n-1].To = m
				} else {
					want = append(want, results.Stretch{From: m, To: m, Kind: kind})
				}
			}
			if d := cmp.Diff(want, told.Choices[key]); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestAskChoices(t *testing.T) {
	asked := 0
	large := func(p kernels.Task) (kernels.Choice, error) {
		asked++
		switch {
		case p.M == 6:
			return kernels.Choice{}, errors.New("the library is busy")
		case p.M == 10:
			return kernels.Choice{}, &kernels.Unsupported{Kernel: "teller", DType: p.DType, Reason: "not ten"}
		case p.M > 12:
			waves := map[bool]float64{true: 1, false: 0.5}[p.M == 18]
			return kernels.Choice{Label: "large", Tiling: kernels.Tiling{Tile: [3]int{16, 64, 32}, Waves: waves}}, nil
		}
		return kernels.Choice{Label: "small"}, nil
	}
	devices := []kernels.Device{tellers("sim:0", large), tellers("sim:1", func(kernels.Task) (kernels.Choice, error) {
		return kernels.Choice{}, errors.New("no heuristic here")
	})}
	plan, err := NewPlan(t.Context(), devices, Options{Targets: []Target{{N: 64, K: 64}},
		Batches: Batches{2, 4, 6, 8, 10, 12, 14, 16, 18, 20}, DTypes: []kernels.DType{kernels.FP32}, Shard: Shard{1, 3}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	told, err := AskChoices(t.Context(), devices, plan, Asking{})
	if err != nil {
		t.Fatal(err)
	}
	key := func(device, kernel string) results.SeriesKey {
		return results.SeriesKey{Device: device, Kernel: kernel, Subject: kernels.Product(kernels.FP32, 64, 64), Regime: results.Engine}
	}
	small := results.LaunchKind{Label: "small"}
	want := map[results.SeriesKey]results.Choices{key("sim:0", "teller"): {
		{From: 2, To: 4, Kind: small}, {From: 8, To: 8, Kind: small}, {From: 12, To: 12, Kind: small},
		// From m14 on there is one tile; Slots, half of what fits, is known from two launches.
		{From: 14, To: 20, Kind: results.LaunchKind{Label: "large", Tile: [3]int{16, 64, 32}, Slots: 2}},
	}}
	if d := cmp.Diff(want, told.Choices); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// A series that always fails is not queried further.
	if asked != 10 || told.Asked != 10+mostUntold+2*mostUntold {
		t.Errorf("%d and %d asked", asked, told.Asked)
	}
	for k, reason := range map[results.SeriesKey]string{
		key("sim:0", "teller"): "m6: the library is busy", key("sim:0", "mute"): "m2: kernel mute does not report",
		key("sim:1", "teller"): "m2: no heuristic here",
	} {
		if got := told.Untold[k]; !strings.Contains(got, reason) {
			t.Errorf("%v: %q, expected %q", k, got, reason)
		}
	}
	run, err := results.Create(filepath.Join(t.TempDir(), "run.db"), results.Meta{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if err := told.Store(run); err != nil {
		t.Fatal(err)
	}
	if kept, err := run.Choices(); err != nil || cmp.Diff(want, kept) != "" {
		t.Errorf("kept %v, %v", kept, err)
	}
}

func TestAskChoicesOfSomeSeries(t *testing.T) {
	d := tellers("sim", func(kernels.Task) (kernels.Choice, error) { return kernels.Choice{Label: "a"}, nil })
	plan, err := NewPlan(t.Context(), []kernels.Device{d}, Options{Targets: []Target{{N: 64, K: 64}, {N: 32, K: 64}},
		Batches: Batches{1, 2}, DTypes: []kernels.DType{kernels.FP32}, Kernels: []string{"teller"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	told, err := AskChoices(t.Context(), []kernels.Device{d}, plan, Asking{
		Of:       func(s PlannedSeries) bool { return s.N == 32 },
		Progress: func(n int) { last = n }})
	if err != nil || len(told.Choices) != 1 || told.Asked != 2 || last != 2 || len(told.Untold) != 0 {
		t.Errorf("%+v, %v, progress %d", told, err, last)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := AskChoices(ended, []kernels.Device{d}, plan, Asking{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// The error names the M of the hanging query.
func TestAskingHangs(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	d := tellers("sim:0", func(p kernels.Task) (kernels.Choice, error) {
		if p.M == 6 {
			<-release
		}
		return kernels.Choice{Label: "a"}, nil
	})
	plan, err := NewPlan(t.Context(), []kernels.Device{d}, Options{Targets: []Target{{N: 64, K: 64}}, Batches: Batches{2, 4, 6, 8},
		DTypes: []kernels.DType{kernels.FP32}, Kernels: []string{"teller"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = AskChoices(t.Context(), []kernels.Device{d}, plan, Asking{CaseTimeout: hangTime})
	var fault *FaultError
	if !errors.As(err, &fault) || fault.Device != "sim:0" || fault.Hung < hangTime || fault.Passes() {
		t.Fatalf("%v, %+v", err, fault)
	}
	for _, want := range []string{"no answer within 400ms", "m6", plan.Series[0].SeriesKey.String()} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

func TestUntoldImplementations(t *testing.T) {
	d := simulated.New(simulated.Config{
		Gemms:      []simulated.KernelConfig{{Name: "a", Cost: simulated.Linear(1e10, 0), Label: func(kernels.Task) string { return "x" }}},
		Attentions: []simulated.KernelConfig{{Name: "flash", Cost: func(kernels.Task) float64 { return 1e-3 }}},
	})
	subject := kernels.Product(kernels.FP32, 64, 64)
	product := d.Kernels(kernels.GEMM)[0]
	if c, err := kernels.ChoiceOf(product, kernels.Task{Subject: subject, M: 1}); err != nil || c.Label != "x" {
		t.Errorf("%+v, %v", c, err)
	}
	subject.Products = 8
	if _, err := kernels.ChoiceOf(product, kernels.Task{Subject: subject, M: 1}); !errors.Is(err, kernels.ErrUntold) {
		t.Errorf("a batch: %v", err)
	}
	heads := kernels.Subject{Operation: kernels.AttentionPrefill, DType: kernels.FP32,
		Dims: kernels.Dims{QueryHeads: 1, KVHeads: 1, HeadDim: 2}}
	if _, err := kernels.ChoiceOf(d.Kernels(heads.Operation)[0], kernels.Task{Subject: heads, M: 1}); !errors.Is(err, kernels.ErrUntold) ||
		!strings.Contains(err.Error(), "kernel flash ") {
		t.Errorf("attention: %v", err)
	}
	subject.Products, subject.Output = 0, kernels.INT32
	var no *kernels.Unsupported
	if _, err := kernels.ChoiceOf(product, kernels.Task{Subject: subject, M: 1}); !errors.As(err, &no) {
		t.Errorf("another output: %v", err)
	}
}

// Launches with a known tile orientation do not affect the orientation of others.
func TestKnownSidesDoNotVote(t *testing.T) {
	choice := func(m int, orientation string, tile int) toldM {
		return toldM{m,
			kernels.Choice{Label: "a", Tiling: kernels.Tiling{Tile: [3]int{128, 64, 0}, Split: 1, Orientation: orientation}, Slots: 132,
				Grid: [3]int{(m + tile - 1) / tile * (1024 * tile / (128 * 64)), 1, 1}}, true}
	}
	var told []toldM
	for m := 100; m < 1000; m += 100 {
		told = append(told, choice(m, "", 128))
	}
	for m := 1100; m < 2000; m += 100 {
		told = append(told, choice(m, kernels.OrientationUnknown, 64))
	}
	last := joinTold(told, 1024)[1].Kind
	if want := [3]int{64, 128, 0}; last.Tile != want || last.Orientation != "" {
		t.Errorf("the tile lies as %v, %q, want %v", last.Tile, last.Orientation, want)
	}
}

func TestSidesOfTilesAreToldByBlocks(t *testing.T) {
	// Library kernels of 128×64, one with 64 rows of M and one with 128; a persistent kernel with one block
	// per multiprocessor; and one that splits K in three.
	blocks := map[string]func(m int) int{
		"a 128x64": func(m int) int { return (m + 63) / 64 * 8 },
		"b 128x64": func(m int) int { return (m + 127) / 128 * 16 },
		"c 128x64": func(int) int { return 132 },
		"splitk d": func(m int) int { return 3 * ((m + 63) / 64 * 8) },
	}
	for label, want := range map[string]results.LaunchKind{
		"a 128x64": {Label: "a 128x64", Tile: [3]int{64, 128, 0}, Split: 1, Slots: 132},
		"b 128x64": {Label: "b 128x64", Tile: [3]int{128, 64, 0}, Split: 1, Slots: 132},
		"c 128x64": {Label: "c 128x64", Tile: [3]int{128, 64, 0}, Split: 1, Slots: 132, Orientation: kernels.OrientationUnknown},
		"splitk d": {Label: "splitk d", Tile: [3]int{64, 128, 0}, Split: 2, Slots: 132},
	} {
		d := tellers("sim", func(p kernels.Task) (kernels.Choice, error) {
			tiling := kernels.Tiling{Tile: [3]int{128, 64, 0}, Split: want.Split, Orientation: kernels.OrientationUnknown}
			return kernels.Choice{Label: label, Tiling: tiling, Slots: 132, Grid: [3]int{blocks[label](p.M * 32), 1, 1}}, nil
		})
		var told []toldM
		for m := 32; m <= 1024; m += 32 {
			c, err := kernels.ChoiceOf(d.Kernels(kernels.GEMM)[0],
				kernels.Task{Subject: kernels.Product(kernels.FP32, 1024, 64), M: m / 32})
			if err != nil {
				t.Fatal(err)
			}
			told = append(told, toldM{m, c, true})
		}
		if got, want := joinTold(told, 1024), (results.Choices{{From: 32, To: 1024, Kind: want}}); cmp.Diff(want, got) != "" {
			t.Errorf("%s (-want +got):\n%s", label, cmp.Diff(want, got))
		}
	}
}
