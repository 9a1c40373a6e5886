package cuda

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

func plannedProblems(t *testing.T, d kernels.DType) []gemm.Problem {
	var out []gemm.Problem
	extents := []int{1, 3, 8, 16, 17, 64, 100, 128, 256, 1000, 4096, 14336, 32768}
	for _, m := range append(extents[:len(extents):len(extents)], 180, 190, 220) {
		for _, n := range extents {
			for _, k := range []int{1, 7, 64, 129, 4096, 14336} {
				for _, o := range []gemm.Alignment{{A: 16, C: 16}, {A: d.Size(), C: d.Output().Size()}, {A: 16, C: 4}} {
					p := kernels.Task{Subject: kernels.Product(d, n, k), M: m}
					if o.A < 16 || k*d.Size()%16 != 0 {
						p.LDA, o.A = k+1, d.Size()
					}
					p, err := p.Normalized()
					if err != nil {
						t.Fatal(err)
					}
					out = append(out, gemm.Problem{Task: p, Aligned: o})
				}
			}
		}
	}
	return out
}

// Every plan for a supported problem, on any GPU, uses embedded device code and stays within the limits of
// both.
func TestPlannedLaunches(t *testing.T) {
	const base = 1 << 32
	for _, f := range families {
		if f == nil {
			continue
		}
		t.Run(f.Name(), func(t *testing.T) {
			used := map[string]bool{}
			check := func(a planning.Arch, p gemm.Problem, planned gemm.Plan) error {
				if planned.Label == "" || planned.Seconds <= 0 || planned.Scratch < 0 || planned.Flags < 0 {
					return fmt.Errorf("plan %+v", planned)
				}
				calls := planned.Bind(gemm.Addresses{
					A: base + uint64(16-p.Aligned.A%16)%16, B: 2 * base, C: 3 * base, LDB: support.PackedLDB(p.DType, p.K),
					Scratch: 4 * base, Flags: 5 * base,
				})
				if len(calls) == 0 {
					return errors.New("no launches")
				}
				for _, c := range calls {
					if err := cudatest.CheckCall(a, c); err != nil {
						return fmt.Errorf("%s: %w", planned.Label, err)
					}
					used[c.Kernel] = true
				}
				return nil
			}
			for _, d := range kernels.DTypes() {
				for i, p := range plannedProblems(t, d) {
					// Checks all candidates for a sample of the problems. No step divides the periods of the table.
					every := 5
					if testing.Short() {
						every = 10
					}
					candidates := i%59 == 0
					if i%every > 0 && (!candidates || testing.Short()) {
						continue
					}
					for _, a := range cudatest.Archs {
						if f.Supports(a, p) != "" {
							continue
						}
						plans := []gemm.Plan{f.Plan(a, p)}
						if c, ok := f.(planning.Chooser[gemm.Problem, gemm.Addresses]); ok && candidates {
							plans = append(plans, c.Candidates(a, p)...)
						}
						for _, plan := range plans {
							if err := check(a, p, plan); err != nil {
								t.Fatalf("%d, %s, %v: %v", a.CC, d, p.Shape(), err)
							}
						}
					}
				}
			}
			if !testing.Short() {
				cudatest.Unused(t, "ga_"+f.Name()+"_", used, "ga_hopper_grouped_", "ga_hopper_scaled_", "ga_hopper_epilogue_",
					"ga_mma_epilogue_", "ga_mma_grouped_")
			}
		})
	}
}
