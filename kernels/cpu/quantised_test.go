package cpu

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// TestGateQuantised puts every kernel that takes quantised weights through the standing table, or a part
// of it, once for each instruction set that this CPU has.
func TestGateQuantised(t *testing.T) {
	problems, checks := map[kernels.DType][]kernels.QuantisedProblem{}, map[kernels.DType][]*kernels.GemmCheck{}
	for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
		problems[d] = kernels.QuantisedCheckProblems(d)
		for i, q := range problems[d] {
			checks[d] = append(checks[d], checked(t)(kernels.NewQuantisedCheck(q, uint64(i))))
		}
		for _, q := range kernels.SpecialQuantised(d) {
			problems[d] = append(problems[d], q)
			checks[d] = append(checks[d], checked(t)(kernels.NewQuantisedCheck(q, 1)).Special())
		}
	}
	onEachISA(t, func(t *testing.T, isa string) {
		dev, all := open(t, 2), []string{"gemv", "tiled", "auto"}
		if isa == "amx" {
			all = []string{"amx", "auto"}
		}
		// Steps through the table that no period of it divides: auto runs what the others do.
		steps := map[string]int{"gemv": 1, "tiled": 2, "amx": 3, "auto": 7}
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
						if every := steps[name]; i%every != 0 && i < len(kernels.QuantisedCheckProblems(d)) || testing.Short() && i/every%4 > 0 {
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

// TestQuantisedFP32 has activations of a type of which the standing table has none, and scales of another
// type than they are.
func TestQuantisedFP32(t *testing.T) {
	onEachISA(t, func(t *testing.T, _ string) {
		dev := open(t, 2)
		for _, scale := range []kernels.DType{kernels.FP16, kernels.BF16} {
			for _, weights := range []string{"int4:64:zero", "int8:column"} {
				w, err := kernels.ParseQuantisation(weights)
				if err != nil {
					t.Fatal(err)
				}
				f, err := w.Format(scale, 320)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range []int{5, 40} {
					p := kernels.Problem{Shape: kernels.Shape{M: m, N: 70, K: 320}, DType: kernels.FP32, BLayout: kernels.Transposed}
					q := kernels.QuantisedProblem{Problem: p, Weights: f}
					if _, err := kernels.CheckQuantised(context.Background(), dev, dev.gemm("auto").(kernels.QuantisedGemm), q, 1); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
}

// TestQuantisedSlices has few rows whose K is divided into slices, which no problem of the standing table is
// deep enough for, with groups that slices and blocks of codes divide, and that they do not.
func TestQuantisedSlices(t *testing.T) {
	const n, k = 36, 13056
	onEachISA(t, func(t *testing.T, isa string) {
		if isa == "amx" {
			t.Skip("amx has no slices")
		}
		dev := open(t, 2)
		for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
			for i, weights := range []string{"int4:32", "int4:96:zero", "int4:128", "int4:column:zero", "int8:32:zero", "int8:128"} {
				w, err := kernels.ParseQuantisation(weights)
				if err != nil {
					t.Fatal(err)
				}
				f, err := w.Format(d, k)
				if err != nil {
					t.Fatal(err)
				}
				p := kernels.Problem{Shape: kernels.Shape{M: 1 + 3*(i%2), N: n, K: k}, DType: d, BLayout: kernels.Transposed}
				q := kernels.QuantisedProblem{Problem: p, Weights: f}
				if _, err := kernels.CheckQuantised(t.Context(), dev, dev.gemm("gemv").(kernels.QuantisedGemm), q, 1); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestQuantisedUnsupported has problems that are refused, with the reason.
func TestQuantisedUnsupported(t *testing.T) {
	dev := open(t, 2)
	tests := []struct {
		name, kernel, weights string
		dtype                 kernels.DType
		m, k                  int
		reason                string
	}{
		{"group", "auto", "int4:48", kernels.FP16, 1, 480, "groups are multiples of 32 or whole columns, not 48"},
		{"does not divide", "auto", "int4:128", kernels.FP16, 1, 320, "a group of 128 does not divide k 320"},
		{"activations", "tiled", "int8:32", kernels.INT8, 1, 320, "activations of quantised weights are fp32, fp16 or bf16"},
		{"rows", "gemv", "int8:32", kernels.BF16, 17, 320, "M is 17, at most 16 rows"},
		{"deep", "gemv", "int4:128", kernels.FP16, 16, 1 << 20, "16 rows of k 1048576 do not fit"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, err := kernels.ParseQuantisation(test.weights)
			if err != nil {
				t.Fatal(err)
			}
			scale := test.dtype
			if scale == kernels.INT8 {
				scale = kernels.FP16
			}
			f, _ := w.Format(scale, test.k) // refused below where there is none
			p := kernels.Problem{Shape: kernels.Shape{M: test.m, N: 64, K: test.k}, DType: test.dtype, BLayout: kernels.Transposed}
			err = dev.gemm(test.kernel).(kernels.QuantisedGemm).SupportsQuantised(kernels.QuantisedProblem{Problem: p, Weights: f})
			var unsupported *kernels.Unsupported
			if !errors.As(err, &unsupported) || !strings.Contains(unsupported.Reason, test.reason) {
				t.Errorf("got %v, expected %q", err, test.reason)
			}
		})
	}
}
