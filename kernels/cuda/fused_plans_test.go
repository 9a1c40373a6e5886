package cuda

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// The pass of an epilogue uses embedded device code within its limits, for every epilogue.
func TestPlannedEpilogues(t *testing.T) {
	const base = 1 << 32
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
