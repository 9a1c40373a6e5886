package quantised

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

func problem(t testing.TB, m, n, k int, d kernels.DType, weights kernels.WeightFormat, aligned int) Problem {
	t.Helper()
	f, err := weights.For(d, k)
	if err != nil {
		t.Fatal(err)
	}
	p := kernels.Task{Subject: kernels.Linear(d, n, k), M: m}
	if aligned < 16 {
		p.LDA, p.LDC = k+1, n+1
	}
	q, err := p.WithWeights(f).Normalized()
	if err != nil {
		t.Fatal(err)
	}
	return gemm.NewProblem(q, aligned, aligned)
}

func TestPlannedLaunches(t *testing.T) {
	const base = 1 << 32
	used := map[string]bool{}
	check := func(a planning.Arch, plan gemm.Plan) error {
		if plan.Label == "" || plan.Seconds <= 0 || plan.Scratch < 0 || plan.Flags < 0 {
			return fmt.Errorf("plan %+v", plan)
		}
		if err := plan.Tiling.Validate(); err != nil || !plan.Tiling.Tiled() || plan.Tiling.Waves <= 0 || plan.Tiling.Split < 1 {
			return fmt.Errorf("tiling %+v: %w", plan.Tiling, err)
		}
		calls := plan.Bind(gemm.Addresses{A: base, B: 2 * base, C: 3 * base, Scratch: 4 * base, Flags: 5 * base})
		if len(calls) == 0 {
			return errors.New("no launches")
		}
		for _, c := range calls {
			if err := cudatest.CheckCall(a, c); err != nil {
				return fmt.Errorf("%s: %w", plan.Label, err)
			}
			used[c.Kernel] = true
		}
		return nil
	}
	groups, rows := []int{32, 64, 128, 1024, 0}, []int{1, 8, 9, 31, 64, 129, 1000, 32768}
	if testing.Short() {
		groups, rows = []int{32, 64, 128, 0}, []int{1, 9, 64, 129, 32768}
	}
	supported := 0
	for _, f := range []Integers{{4}, {8}} {
		for _, group := range groups {
			for _, zeros := range []bool{false, true} {
				for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
					for _, m := range rows {
						for _, nk := range [][2]int{{1, 1024}, {100, 2048}, {4096, 14336}, {14336, 4096}} {
							for _, aligned := range []int{16, 2} {
								p := problem(t, m, nk[0], nk[1], d, kernels.IntegerWeights(f.Bits, group, zeros), aligned)
								for _, a := range cudatest.Archs {
									if f.Supports(a, p) != "" {
										continue
									}
									supported++
									for _, plan := range append(f.Candidates(a, p), f.Plan(a, p)) {
										if err := check(a, plan); err != nil {
											t.Fatalf("%s, %v: %v", f.Name(), p.Task, err)
										}
									}
								}
							}
						}
					}
				}
			}
		}
		cudatest.Unused(t, "ga_"+f.Name()+"_", used)
	}
	if supported == 0 {
		t.Error("nothing is supported anywhere")
	}
}

func TestSupports(t *testing.T) {
	int4 := func(group int) kernels.WeightFormat { return kernels.IntegerWeights(4, group, false) }
	good := problem(t, 8, 4096, 4096, kernels.BF16, int4(128), 16)
	otherScales := good
	otherScales.Weights.Scale = kernels.FP16
	ampere := cudatest.H200
	ampere.CC = 80
	for _, c := range []struct {
		a    planning.Arch
		f    Integers
		p    Problem
		want string
	}{
		{cudatest.H200, Integers{4}, good, ""},
		{cudatest.H200, Integers{4}, problem(t, 1, 64, 100, kernels.FP16, int4(0), 16), ""},
		{cudatest.H200, Integers{8}, good, "weights have 8 bits, not 4"},
		{ampere, Integers{4}, good, ""},
		{cudatest.T4, Integers{4}, good, "mma.sync in this form needs compute capability 8.0, this GPU has 7.5"},
		{cudatest.H200, Integers{4}, otherScales, "scales are of the activations' type, bf16, not fp16"},
		{cudatest.H200, Integers{4}, problem(t, 8, 4096, 960, kernels.BF16, int4(96), 16),
			"groups are 32, 64, multiples of 128 or whole columns, not 96"},
		{cudatest.H200, Integers{4}, problem(t, 8, 4096, 960, kernels.BF16, int4(16), 16),
			"groups are 32, 64, multiples of 128 or whole columns, not 16"},
	} {
		if got := c.f.Supports(c.a, c.p); got != c.want {
			t.Errorf("%s, %v on %d: %q, want %q", c.f.Name(), c.p.Task, c.a.CC, got, c.want)
		}
	}
}

func TestPackedCalls(t *testing.T) {
	for _, bits := range []int{4, 8} {
		for _, zeros := range []bool{false, true} {
			p := problem(t, 8, 4097, 4096, kernels.BF16, kernels.IntegerWeights(bits, 64, zeros), 16)
			for _, call := range []planning.Call{
				support.RecordsCall(cudatest.H200, p.Task, 1<<32, 2<<32), support.PlainCall(cudatest.H200, p.Task, 1<<32, 2<<32),
			} {
				if err := cudatest.CheckCall(cudatest.H200, call); err != nil {
					t.Error(err)
				}
			}
			scales := 2 * 4096 / 64 * 33 * 128
			if zeros {
				scales *= 2
			}
			if got, want := support.RecordsBytes(p.Task), int64(33*128*4096*bits/8+scales); got != want {
				t.Errorf("%v: %d bytes of records, want %d", p.Task, got, want)
			}
		}
	}
}
