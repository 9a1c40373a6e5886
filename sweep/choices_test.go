package sweep

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
	"github.com/gemmaudit/gemmaudit/results"
)

// tellers is a device with one kernel that says choice of every product, and two that don't.
func tellers(id string, choice func(p kernels.Problem) (kernels.Choice, error)) *kerneltest.Device {
	cost := kerneltest.Linear(1e10, 0)
	return kerneltest.New(kerneltest.Config{ID: id, Gemms: []kerneltest.GemmConfig{
		{Name: "teller", Cost: cost, MaxM: 40, Choice: choice}, {Name: "mute", Cost: cost},
	}})
}

func TestAskChoices(t *testing.T) {
	asked := 0
	large := func(p kernels.Problem) (kernels.Choice, error) {
		asked++
		switch {
		case p.M == 6:
			return kernels.Choice{}, errors.New("the library is busy")
		case p.M == 10:
			return kernels.Choice{}, &kernels.Unsupported{Kernel: "teller", DType: p.DType, Reason: "not ten"}
		case p.M > 12:
			return kernels.Choice{Label: "large", Tiling: kernels.Tiling{Tile: [3]int{16, 64, 32}, Waves: 0.5}}, nil
		}
		return kernels.Choice{Label: "small"}, nil
	}
	devices := []kernels.Device{tellers("sim:0", large), tellers("sim:1", func(kernels.Problem) (kernels.Choice, error) {
		return kernels.Choice{}, errors.New("no heuristic here")
	})}
	plan, err := NewPlan(devices, Options{Targets: []Target{{N: 64, K: 64}}, Batches: Batches{2, 4, 6, 8, 10, 12, 14, 16, 18, 20}, DTypes: []kernels.DType{kernels.FP32}, Shard: Shard{1, 3}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	told, err := AskChoices(t.Context(), devices, plan, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := func(device, kernel string) results.SeriesKey {
		return results.SeriesKey{Device: device, Kernel: kernel, Subject: kernels.Product(kernels.FP32, 64, 64), Regime: results.Engine}
	}
	small := results.LaunchKind{Label: "small"}
	want := map[results.SeriesKey]results.Choices{key("sim:0", "teller"): {
		{From: 2, To: 4, Kind: small}, {From: 8, To: 8, Kind: small}, {From: 12, To: 12, Kind: small},
		// Of m14 on there is one tile, half as many as fit, and from m18 on there are two.
		{From: 14, To: 16, Kind: results.LaunchKind{Label: "large", Tile: [3]int{16, 64, 32}, Slots: 2}},
		{From: 18, To: 20, Kind: results.LaunchKind{Label: "large", Tile: [3]int{16, 64, 32}, Slots: 4}},
	}}
	if d := cmp.Diff(want, told.Choices); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// All shards ask about everything; what always fails is not asked on and on.
	if asked != 10 || told.Asked != 10+mostUntold+2*mostUntold {
		t.Errorf("%d and %d asked", asked, told.Asked)
	}
	for k, reason := range map[results.SeriesKey]string{
		key("sim:0", "teller"): "m6: the library is busy", key("sim:0", "mute"): "m2: kernel mute does not tell", key("sim:1", "teller"): "m2: no heuristic here",
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
	d := tellers("sim", func(kernels.Problem) (kernels.Choice, error) { return kernels.Choice{Label: "a"}, nil })
	plan, err := NewPlan([]kernels.Device{d}, Options{Targets: []Target{{N: 64, K: 64}, {N: 32, K: 64}}, Batches: Batches{1, 2}, DTypes: []kernels.DType{kernels.FP32}, Kernels: []string{"teller"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	told, err := AskChoices(t.Context(), []kernels.Device{d}, plan, func(s PlannedSeries) bool { return s.N == 32 }, func(n int) { last = n })
	if err != nil || len(told.Choices) != 1 || told.Asked != 2 || last != 2 || len(told.Untold) != 0 {
		t.Errorf("%+v, %v, progress %d", told, err, last)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := AskChoices(ended, []kernels.Device{d}, plan, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Attention, and a kernel without an interface for it, can't be asked.
func TestUntoldImplementations(t *testing.T) {
	d := kerneltest.New(kerneltest.Config{
		Gemms:      []kerneltest.GemmConfig{{Name: "a", Cost: kerneltest.Linear(1e10, 0), Label: func(kernels.Problem) string { return "x" }}},
		Attentions: []kerneltest.AttentionConfig{{Name: "flash", Cost: func(kernels.Attention) float64 { return 1e-3 }}},
	})
	subject := kernels.Product(kernels.FP32, 64, 64)
	product := kernels.Implementations(d, kernels.GEMM)[0]
	if c, err := kernels.ChoiceOf(product, kernels.Task{Subject: subject, M: 1}); err != nil || c.Label != "x" {
		t.Errorf("%+v, %v", c, err)
	}
	subject.Products = 8
	var never *kernels.Untold
	if _, err := kernels.ChoiceOf(product, kernels.Task{Subject: subject, M: 1}); !errors.As(err, &never) {
		t.Errorf("a batch: %v", err)
	}
	if _, err := kernels.ChoiceOf(kernels.Implementations(d, kernels.AttentionPrefill)[0], kernels.Task{M: 1}); !errors.As(err, &never) || never.Kernel != "flash" {
		t.Errorf("attention: %v", err)
	}
	subject.Products, subject.Output = 0, kernels.INT32
	var no *kernels.Unsupported
	if _, err := kernels.ChoiceOf(product, kernels.Task{Subject: subject, M: 1}); !errors.As(err, &no) {
		t.Errorf("another output: %v", err)
	}
}
