package sweep

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

func quantizing() *simulated.Device {
	return declared(func(c *simulated.Config) {
		c.Gemms = append(c.Gemms, simulated.KernelConfig{
			Name: "integers", Cost: simulated.Linear(1e10, 5e-6), Quantized: simulated.Linear(2e10, 5e-6),
		})
	})
}

func TestQuantizedWeightsAreSwept(t *testing.T) {
	d := quantizing()
	int4 := kernels.IntegerWeights(4, 32, true)
	p := planned(t, d, "1:3", func(o *Options) {
		o.DTypes, o.Weights, o.Layout = []kernels.DType{kernels.BF16}, []kernels.WeightFormat{{}, int4}, kernels.Transposed
	})
	var names []string
	for _, s := range p.Series {
		names = append(names, s.Kernel+" "+s.Weights.String())
	}
	if want := []string{"ours plain", "integers plain", "integers int4 g32x1 bf16 zint4"}; !slices.Equal(names, want) {
		t.Fatalf("series %q, want %q", names, want)
	}
	if notes := lines(p.Notes); !strings.Contains(notes, "bf16 with weights int4:32:zero: it takes plain weights") {
		t.Errorf("notes %q", notes)
	}
	run := newRun(t, p)
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	times := map[string]float64{}
	cases, err := run.Cases()
	if err != nil {
		t.Fatal(err)
	}
	byID := map[int64]results.Case{}
	for _, c := range cases {
		byID[c.ID] = c
	}
	for _, s := range complete(t, p, run) {
		if c := byID[s.CaseID]; c.M == 3 && c.Kernel == "integers" {
			times[c.Weights.String()] = s.US
		}
	}
	if len(times) != 2 || !(times["int4 g32x1 bf16 zint4"] < times["plain"]) {
		t.Errorf("times of integers at m3: %v", times)
	}
}

func TestQuantizedPlansAreRefused(t *testing.T) {
	int4 := func(group int) []kernels.WeightFormat {
		return []kernels.WeightFormat{kernels.IntegerWeights(4, group, false)}
	}
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"group", Options{Weights: int4(96), DTypes: []kernels.DType{kernels.BF16}},
			"bf16 n256 k128 with weights int4:96: a group of 96 does not divide k 128"},
		{"type", Options{Weights: int4(32), DTypes: []kernels.DType{kernels.FP32}},
			"weights int4:32: activations of fp32, expected fp16 or bf16"},
		{"layout", Options{Weights: int4(32), DTypes: []kernels.DType{kernels.BF16}, Kernels: []string{"integers"}},
			"quantized weights are stored"},
		{"kernel", Options{Weights: int4(32), DTypes: []kernels.DType{kernels.BF16}, Kernels: []string{"ours"}, Layout: kernels.Transposed},
			"kernel ours does not support bf16 with weights int4:32: it takes plain weights"},
	} {
		c.o.Targets, c.o.Batches = []Target{{N: 256, K: 128}}, Batches{1}
		if _, err := NewPlan(t.Context(), []kernels.Device{quantizing()}, c.o, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	batch := Options{Targets: []Target{{N: 256, K: 128, Products: 2}}, Batches: Batches{1}, Weights: int4(32), Layout: kernels.Transposed,
		DTypes: []kernels.DType{kernels.BF16}}
	if _, err := NewPlan(t.Context(), []kernels.Device{quantizing()}, batch, nil); err == nil ||
		!strings.HasSuffix(err.Error(), "supports bf16 with weights int4:32") {
		t.Errorf("a batch: %v, want that its weights are the reason", err)
	}
	p, err := NewPlan(t.Context(), []kernels.Device{quantizing()},
		Options{Targets: []Target{{N: 256, K: 128}}, Batches: Batches{1}, Weights: int4(32), Layout: kernels.Transposed}, nil)
	if err != nil || len(p.Series) != 1 || p.Series[0].DType != kernels.BF16 {
		t.Errorf("%+v, %v", p, err)
	}
}

// The budget includes the elements that a library dequantizes.
func TestQuantizedMemory(t *testing.T) {
	s := kernels.Product(kernels.BF16, 4096, 4096)
	s.Layout = kernels.Transposed
	s.Weights, _ = kernels.IntegerWeights(4, 128, false).For(kernels.BF16, 4096)
	c := results.Case{SeriesKey: results.SeriesKey{Subject: s, Kernel: "cublas", Regime: results.Hot}}
	c.M = 1
	d := demand{key: matrixOf(c), forms: []formKey{formOf(c)}}
	raw, plain := int64(4096*4096/2+4096*32*2), int64(4096*4096*2)
	if d.key.bytes() != raw || d.bytes(1) < raw+plain {
		t.Errorf("%d bytes a copy, want %d; %d with its form, want at least %d", d.key.bytes(), raw, d.bytes(1), raw+plain)
	}
}
