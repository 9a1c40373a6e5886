package cpu

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestGateQuantized(t *testing.T) {
	problems, checks := map[kernels.DType][]kernels.Task{}, map[kernels.DType][]*kernels.GemmCheck{}
	for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
		problems[d] = kernels.QuantizedCheckProblems(d)
		for i, q := range problems[d] {
			checks[d] = append(checks[d], checked(t)(kernels.NewGemmCheck(q, uint64(i))))
		}
		for _, q := range kernels.SpecialQuantized(d) {
			problems[d] = append(problems[d], q)
			checks[d] = append(checks[d], checked(t)(kernels.NewGemmCheck(q, 1)).Special())
		}
	}
	onEachISA(t, func(t *testing.T, isa string) {
		dev, all := open(t, 2), []string{"gemv", "tiled", "auto"}
		if isa == "amx" {
			all = []string{"amx", "auto"}
		}
		// The steps avoid the table's periods. auto has the largest because it runs the other kernels.
		steps := map[string]int{"gemv": 1, "tiled": 2, "amx": 3, "auto": 7}
		if isa == "portable" && !testing.Short() { // without vectors, so without most tails, and slow
			steps = map[string]int{"gemv": 5, "tiled": 7, "auto": 11}
		}
		for _, name := range all {
			g := dev.gemm(name)
			for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
				if isa == "amx" && d != kernels.BF16 {
					continue
				}
				t.Run(name+"/"+string(d), func(t *testing.T) {
					if name == "amx" {
						needsPairs(t, dev)
					}
					ran := 0
					for i, check := range checks[d] {
						if every := steps[name]; i%every != 0 && i < len(kernels.QuantizedCheckProblems(d)) ||
							testing.Short() && i/every%4 > 0 {
							continue
						}
						_, err := check.Margin(t.Context(), dev, g)
						var unsupported *kernels.Unsupported
						if errors.As(err, &unsupported) && name == "gemv" && problems[d][i].M > gemvRows {
							continue
						}
						if err != nil {
							t.Error(err)
						}
						ran++
					}
					if ran == 0 {
						t.Error("nothing ran")
					}
				})
			}
		}
	})
}

// The table has no fp32 activations, nor scales of a type other than the activations.
func TestQuantizedFP32(t *testing.T) {
	onEachISA(t, func(t *testing.T, _ string) {
		dev := open(t, 2)
		for _, scale := range []kernels.DType{kernels.FP16, kernels.BF16} {
			for _, weights := range []string{"int4:64:zero", "int8:column"} {
				w, err := kernels.ParseWeights(weights)
				if err != nil {
					t.Fatal(err)
				}
				f, err := w.For(scale, 320)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range []int{5, 40} {
					p := kernels.Task{Subject: kernels.Linear(kernels.FP32, 70, 320), M: m}
					q := p.WithWeights(f)
					if _, err := kernels.CheckMargin(context.Background(), dev, dev.gemm("auto"), q, 1); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
}

// With few rows, K is split into slices, which needs a deeper K than the table has. Slices and code blocks
// divide some of the groups.
func TestQuantizedSlices(t *testing.T) {
	const n, k = 36, 13056
	onEachISA(t, func(t *testing.T, isa string) {
		if isa == "amx" {
			t.Skip("amx has no slices")
		}
		dev := open(t, 2)
		for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
			for i, weights := range []string{"int4:32", "int4:96:zero", "int4:128", "int4:column:zero", "int8:32:zero", "int8:128"} {
				w, err := kernels.ParseWeights(weights)
				if err != nil {
					t.Fatal(err)
				}
				f, err := w.For(d, k)
				if err != nil {
					t.Fatal(err)
				}
				p := kernels.Task{Subject: kernels.Linear(d, n, k), M: 1 + 3*(i%2)}
				q := p.WithWeights(f)
				if _, err := kernels.CheckMargin(t.Context(), dev, dev.gemm("gemv"), q, 1); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func TestQuantizedUnsupported(t *testing.T) {
	dev := open(t, 2)
	tests := []struct {
		name, kernel, weights string
		dtype                 kernels.DType
		m, k                  int
		reason                string
	}{
		{"group", "auto", "int4:48", kernels.FP16, 1, 480, "groups are multiples of 32 or whole columns, not 48"},
		{"does not divide", "auto", "int4:128", kernels.FP16, 1, 320, "a group of 128 does not divide k 320"},
		{"activations", "tiled", "int8:32", kernels.INT8, 1, 320, "activations of quantized weights are fp32, fp16 or bf16"},
		{"rows", "gemv", "int8:32", kernels.BF16, 17, 320, "M is 17"},
		{"deep", "gemv", "int4:128", kernels.FP16, 16, 1 << 20, "16 rows of k 1048576 do not fit"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, err := kernels.ParseWeights(test.weights)
			if err != nil {
				t.Fatal(err)
			}
			scale := test.dtype
			if scale == kernels.INT8 {
				scale = kernels.FP16
			}
			f, _ := w.For(scale, test.k) // an invalid format fails below
			p := kernels.Task{Subject: kernels.Linear(test.dtype, 64, test.k), M: test.m}
			err = dev.gemm(test.kernel).Supports(p.WithWeights(f))
			var unsupported *kernels.Unsupported
			if !errors.As(err, &unsupported) || !strings.Contains(unsupported.Reason, test.reason) {
				t.Errorf("got %v, expected %q", err, test.reason)
			}
		})
	}
}
