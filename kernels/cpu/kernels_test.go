package cpu

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestGate(t *testing.T) {
	dtypes := []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8}
	problems, checks := map[kernels.DType][]kernels.Task{}, map[kernels.DType][]*kernels.GemmCheck{}
	for _, d := range dtypes {
		problems[d] = kernels.CheckProblems(d)
		for i, p := range problems[d] {
			checks[d] = append(checks[d], checked(t)(kernels.NewGemmCheck(p, uint64(i))))
		}
		for _, p := range kernels.SpecialProblems(d) {
			problems[d] = append(problems[d], p)
			check := checked(t)(kernels.NewGemmCheck(p, 1))
			if d != kernels.INT8 {
				check = check.Special()
			}
			checks[d] = append(checks[d], check)
		}
	}
	onEachISA(t, func(t *testing.T, isa string) {
		dev := open(t, 2)
		for _, g := range dev.Kernels(kernels.GEMM) {
			switch g.(type) {
			case *blocked:
				if isa == "amx" {
					continue // same code as avx512
				}
			case *auto, naive:
			default:
				continue // tested elsewhere
			}
			if g.Name() == "naive" && isa != "portable" {
				continue // same code on all instruction sets
			}
			for _, d := range dtypes {
				t.Run(g.Name()+"/"+string(d), func(t *testing.T) {
					for i, check := range checks[d] {
						// The naive kernel has no tiles whose sides shapes would have to meet.
						if (testing.Short() || g.Name() == "naive") && i%4 > 0 {
							continue
						}
						found, err := check.Run(t.Context(), dev, g)
						var unsupported *kernels.Unsupported
						if errors.As(err, &unsupported) && g.Name() == "gemv" && problems[d][i].M > gemvRows {
							continue
						}
						if err != nil {
							t.Error(err)
						}
						if want := subnormalsOf(dev, g, d); err == nil && want != "" && found.Subnormals != "" && found.Subnormals != want {
							t.Errorf("%v: subnormal operands: %s, want %s", problems[d][i].Shape(), found.Subnormals, want)
						}
					}
				})
			}
		}
	})
}

// subnormalsOf returns the documented handling of subnormals by our kernel, "" if undefined.
func subnormalsOf(d *Device, g kernels.Kernel, dt kernels.DType) kernels.Subnormals {
	if amxEmulated && dt == kernels.BF16 && g.Name() == "auto" && !d.features.AVX512BF16 {
		return "" // tiles flush them, but auto's AVX2 path for few rows does not; no real CPU mixes both
	}
	if dt != kernels.BF16 || g.Name() == "naive" || !d.features.AVX512 || !d.features.AVX512BF16 {
		return kernels.SubnormalsKept
	}
	return kernels.SubnormalsZero
}

// K is large enough to pack A in parts, and N small enough for gemv to split K among threads.
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
	checks := make([]*kernels.GemmCheck, len(tests))
	for i, test := range tests {
		checks[i] = checked(t)(kernels.NewGemmCheck(kernels.Task{Subject: kernels.Product(test.dtype, test.shape.N, test.shape.K),
			M: test.shape.M}, 1))
	}
	onEachISA(t, func(t *testing.T, isa string) {
		if isa == "amx" {
			t.Skip("both kernels are those of avx512")
		}
		dev := open(t, 2)
		for i, test := range tests {
			if _, err := checks[i].Margin(t.Context(), dev, dev.gemm(test.kernel)); err != nil {
				t.Error(err)
			}
		}
	})
}

func checked(t *testing.T) func(*kernels.GemmCheck, error) *kernels.GemmCheck {
	return func(c *kernels.GemmCheck, err error) *kernels.GemmCheck {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// detected returns the features of this machine, regardless of GEMMAUDIT_ISA.
var detected = detect

// TestMain applies GEMMAUDIT_ISA as the CPU's limit, even if tests set the variable to other values.
func TestMain(m *testing.M) {
	isa := os.Getenv("GEMMAUDIT_ISA")
	f, err := capped(detect(), isa)
	if err == nil && !has(f, isa) {
		err = fmt.Errorf("GEMMAUDIT_ISA=%s: this CPU lacks it", isa)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !f.AMX {
		f.noAMX = "this CPU has no AMX, by GEMMAUDIT_ISA"
	}
	detect = func() features { return f }
	os.Exit(m.Run())
}

// onEachISA runs a test on each instruction set of this CPU. Checks that do not depend on it belong
// elsewhere.
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

func has(f features, isa string) bool {
	switch isa {
	case "avx2":
		return f.AVX2 && f.FMA && f.F16C
	case "avx512-core":
		return f.AVX512
	case "avx512-vnni":
		return f.AVX512 && f.AVX512VNNI
	case "avx512":
		return f.AVX512
	case "amx":
		return f.AMX
	}
	return true
}

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
