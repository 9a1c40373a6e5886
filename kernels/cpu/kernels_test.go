package cpu

import (
	"context"
	"errors"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// TestGate puts every kernel of our own through the standing table of the gate,
// once for each instruction set that this CPU has.
func TestGate(t *testing.T) {
	onEachISA(t, func(t *testing.T, isa string) {
		dev := open(t, 2)
		for _, g := range dev.Gemms() {
			switch g.(type) {
			case *blocked, *auto, naive:
			default:
				continue // gated beside their own code
			}
			if g.Name() == "naive" && isa != "portable" {
				continue // the same code on every instruction set
			}
			for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
				t.Run(g.Name()+"/"+string(d), func(t *testing.T) {
					for i, p := range kernels.CheckProblems(d) {
						if testing.Short() && i%4 > 0 {
							continue
						}
						err := kernels.CheckGemm(context.Background(), dev, g, p, uint64(i))
						var unsupported *kernels.Unsupported
						if errors.As(err, &unsupported) && g.Name() == "gemv" && p.M > gemvRows {
							continue
						}
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
	})
}

// TestGateDeepK has products of so large a K that A is packed in parts, and of so
// few columns that gemv divides K among the threads.
func TestGateDeepK(t *testing.T) {
	tests := []struct {
		kernel string
		dtype  kernels.DType
		shape  kernels.Shape
	}{
		{"tiled", kernels.FP32, kernels.Shape{M: 17, N: 33, K: 150_001}},
		{"tiled", kernels.BF16, kernels.Shape{M: 15, N: 5, K: 300_003}},
		{"gemv", kernels.FP32, kernels.Shape{M: 16, N: 33, K: 110_001}},
		{"gemv", kernels.FP32, kernels.Shape{M: 3, N: 30, K: 20_003}},
		{"gemv", kernels.FP16, kernels.Shape{M: 16, N: 65, K: 9_001}},
		{"gemv", kernels.BF16, kernels.Shape{M: 1, N: 70, K: 20_001}},
		{"gemv", kernels.INT8, kernels.Shape{M: 2, N: 31, K: 30_011}},
	}
	if testing.Short() {
		tests = tests[3:]
	}
	onEachISA(t, func(t *testing.T, _ string) {
		dev := open(t, 2)
		for _, test := range tests {
			p := kernels.Problem{Shape: test.shape, DType: test.dtype}
			if err := kernels.CheckGemm(context.Background(), dev, dev.gemm(test.kernel), p, 1); err != nil {
				t.Error(err)
			}
		}
	})
}

// onEachISA runs a test under each instruction set that this CPU has. What a test
// checks that does not depend on it, is checked elsewhere, once.
func onEachISA(t *testing.T, test func(t *testing.T, isa string)) {
	for _, isa := range []string{"portable", "avx2", "avx512", "amx"} {
		t.Run(isa, func(t *testing.T) {
			if !has(detect(), isa) {
				t.Skipf("this CPU has no %s", isa)
			}
			t.Setenv("GEMMAUDIT_ISA", isa)
			test(t, isa)
		})
	}
}

// has says whether kernels may be run with GEMMAUDIT_ISA set to isa.
func has(f features, isa string) bool {
	switch isa {
	case "avx2":
		return f.AVX2 && f.FMA && f.F16C
	case "avx512":
		return f.AVX512
	case "amx":
		return f.AMX
	}
	return true
}

// open opens the CPU for one test.
func open(t testing.TB, threads int) *Device {
	t.Helper()
	dev, err := Open(threads)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}
