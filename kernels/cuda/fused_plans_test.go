package cuda

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Every plan with an epilogue uses embedded device code within its limits, and every kernel has a plan.
func TestPlannedFusedLaunches(t *testing.T) {
	const base = 1 << 32
	for _, f := range fusedFamilies {
		used := map[string]bool{}
		for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
			for i, p := range plannedProblems(t, d) {
				p.Epilogue = kernels.Epilogues()[i%len(kernels.Epilogues())]
				if p.Epilogue.IsGated() {
					p.LDC = p.N / 2
				}
				for _, a := range cudatest.Archs {
					if i%7 > 0 || f.Supports(a, p) != "" {
						continue
					}
					plans := []gemm.Plan{f.Plan(a, p)}
					if c, ok := f.(planning.Chooser[gemm.Problem, gemm.Addresses]); ok && i%5 == 0 {
						plans = append(plans, c.Candidates(a, p)...)
					}
					for _, plan := range plans {
						calls := plan.Bind(gemm.Addresses{
							A: base + uint64(16-p.Aligned.A%16)%16, B: 2 * base, C: 3 * base, LDB: support.PackedLDB(p.DType, p.K),
							Scratch: 4 * base, Flags: 5 * base, Bias: 6 * base, Residual: 7 * base,
						})
						for _, c := range calls {
							if err := cudatest.CheckCall(a, c); err != nil {
								t.Fatalf("%d, %s, %v: %s: %v", a.CC, d, p.Shape(), plan.Label, err)
							}
							used[c.Kernel] = true
						}
					}
				}
			}
		}
		cudatest.Unused(t, "ga_"+f.Name()+"_epilogue_", used)
	}
	for _, d := range kernels.FusedGEMM.Definition().DTypes {
		for i, e := range kernels.Epilogues() {
			task := kernels.Task{Subject: kernels.Linear(d, 33+i, 64), M: 1 << i}
			task.Operation, task.Epilogue = kernels.FusedGEMM, e
			for _, a := range cudatest.Archs {
				if planning.TypeReason(a, d) != "" && d != kernels.FP32 {
					continue
				}
				if err := cudatest.CheckCall(a, support.EpilogueCall(a, task, base, 3*base, 4*base, 2*base)); err != nil {
					t.Errorf("%d: %v: %v", a.CC, task, err)
				}
			}
		}
	}
}
