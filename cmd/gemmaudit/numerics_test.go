package main

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// On a real device, kernels must compute the tested products with unquantized and quantized weights in both
// layouts. Parts and pads, with and without a copy, must compute the same product.
func TestNumericsOnCPU(t *testing.T) {
	d, err := cpu.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	m, err := sweep.NewMeasurer(sweep.MeasureConfig{Devices: []kernels.Device{d}, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	quantized := kernels.Product(kernels.BF16, 96, 128)
	quantized.Layout = kernels.Transposed
	if quantized.Weights, err = kernels.IntegerWeights(4, 32, true).For(kernels.BF16, 128); err != nil {
		t.Fatal(err)
	}
	subjects := []kernels.Subject{quantized}
	for _, e := range []kernels.Epilogue{kernels.Bias + kernels.GELU, kernels.Gated, kernels.Bias + kernels.Residual} {
		s := kernels.Linear(kernels.BF16, 96, 128)
		s.Operation, s.Epilogue = s.Operation.WithEpilogue(), e
		subjects = append(subjects, s)
	}
	for _, dt := range []kernels.DType{kernels.FP32, kernels.BF16, kernels.INT8} {
		for _, layout := range []kernels.Layout{kernels.RowMajor, kernels.Transposed} {
			s := kernels.Product(dt, 96, 128)
			s.Layout = layout
			subjects = append(subjects, s)
		}
	}
	for _, s := range subjects {
		at := func(kernel string, m int) results.Case {
			return results.Case{M: m, SeriesKey: results.SeriesKey{Device: "cpu", Kernel: kernel, Subject: s, Regime: results.Hot}}
		}
		direct := at("auto", 40)
		split, pad, copied, other := direct, direct, direct, at("tiled", 40)
		split.Parts = []int{32, 8}
		pad.PadTo = 48
		copied.PadTo, copied.Copied = 48, true
		request := results.ResultRequest{Direct: []results.Case{direct, at("auto", 1), at("auto", 20)},
			Remedies: [][]results.Case{{split}, {pad}, {copied}}}
		if s.Weights == (kernels.WeightFormat{}) {
			request.Remedies = append(request.Remedies, []results.Case{other})
		}
		if s.Epilogue != 0 {
			request.Remedies = append(request.Remedies, []results.Case{at(kernels.SeparateKernel("auto"), 40)})
		}
		got, ok, err := m.Numerics(t.Context(), request)
		if err != nil || !ok || len(got) != len(request.Remedies) {
			t.Fatalf("%v: %d results, %v, %v", s, len(got), ok, err)
		}
		most := map[kernels.DType]float64{kernels.FP32: 1e-5, kernels.BF16: 1e-2, kernels.INT8: 0}[s.DType]
		for i, n := range got {
			if n.Failed != "" || n.Wrong > 0 || n.Rows < 8 || n.Columns == 0 {
				t.Errorf("%v, remedy %d: %+v", s, i, n)
			}
			if n.DirectError > most || n.RemedyError > most {
				t.Errorf("%v, remedy %d: errors of %g and %g, expected at most %g", s, i, n.DirectError, n.RemedyError, most)
			}
			if s.DType == kernels.INT8 && !n.SameBits {
				t.Errorf("%v, remedy %d: whole numbers differ", s, i)
			}
		}
		if got[1].SameBits != got[2].SameBits || got[1].RemedyError != got[2].RemedyError {
			t.Errorf("%v: a pad with its rows copied has another result: %+v and %+v", s, got[1], got[2])
		}
	}
}
