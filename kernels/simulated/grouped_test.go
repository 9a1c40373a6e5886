package simulated

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// The gate of grouped products finds each fault in weights of every format, and passes a right kernel.
func TestGroupedGate(t *testing.T) {
	def := kernels.GroupedGEMM.Definition()
	for _, dt := range []kernels.DType{kernels.BF16, kernels.FP8} {
		cfg := KernelConfig{Name: "exact", Cost: Linear(1e9, 0), Quantized: Linear(1e9, 0), Arithmetic: true}
		all := []KernelConfig{cfg}
		for i, f := range def.Faults {
			cfg.Name, cfg.Fault = fmt.Sprint("fault ", i), f
			all = append(all, cfg)
		}
		d := New(Config{Kernels: map[kernels.Operation][]KernelConfig{kernels.GroupedGEMM: all}})
		cases := def.Cases(dt)
		found, errs := def.Gate(t.Context(), d, d.Kernels(kernels.GroupedGEMM), dt, 1)
		if errs[0] != nil || found[0].Passed != len(cases) {
			t.Errorf("%s: %d of %d passed, skipped %v: %v", dt, found[0].Passed, len(cases), found[0].Skipped, errs[0])
		}
		for i, f := range def.Faults {
			applies := f.Applies == nil || slices.ContainsFunc(cases, f.Applies)
			if wrong := (*kernels.ElementError)(nil); errors.As(errs[i+1], &wrong) != applies {
				t.Errorf("%s, %s: %v", dt, f.Name, errs[i+1])
			}
		}
	}
}

// A group's product costs what it costs alone, in plain and in quantized weights.
func TestLoopsOverQuantizedGroups(t *testing.T) {
	cost := func(seconds float64) Cost { return func(t kernels.Task) float64 { return seconds * float64(t.M) } }
	d := New(Config{Gemms: []KernelConfig{{Name: "both", Cost: cost(1), Quantized: cost(0.5)}, {Name: "plain", Cost: cost(1)}}})
	s := kernels.Subject{Operation: kernels.GroupedGEMM, DType: kernels.FP8, Layout: kernels.Transposed,
		Dims: kernels.Dims{N: 256, K: 384, Groups: 4}}
	format, err := kernels.ParseWeights("fp8:128x128")
	if err == nil {
		s.Weights, err = format.For(s.DType, s.K)
	}
	if err != nil {
		t.Fatal(err)
	}
	ks := d.Kernels(kernels.GroupedGEMM)
	if err := ks[1].Supports(kernels.Task{Subject: s, M: 9}); err == nil {
		t.Error("a kernel of plain weights takes fp8 with scales")
	}
	task := kernels.Task{Subject: s, M: 9}
	stored, err := d.Alloc(s.Stored(9))
	if err != nil {
		t.Fatal(err)
	}
	task, err = task.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	in, _, out := task.Extents()
	a, err := d.Alloc(in)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.Alloc(2 * out)
	if err != nil {
		t.Fatal(err)
	}
	w, err := ks[0].Prepare(task, stored)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ks[0].Bind(task, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
	if err != nil {
		t.Fatal(err)
	}
	span, err := d.Execute(t.Context(), []kernels.Launch{l}, 1)
	if err != nil || span.Seconds < 4.4 || span.Seconds > 4.6 {
		t.Errorf("9 rows took %g s, expected 4.5: %v", span.Seconds, err)
	}
}
