package decoder

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// TestFusedPlansAreKept compares plans with testdata/plans.txt.gz; -update-plans accepts the new ones.
func TestFusedPlansAreKept(t *testing.T) {
	var text bytes.Buffer
	for _, a := range cudatest.Archs {
		for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
			fmt.Fprintf(&text, "%d with %d multiprocessors, %s\n", a.CC, a.SMs, d)
			writeFusedPlans(&text, a, d)
		}
	}
	cudatest.Golden(t, "plans.txt.gz", text.String())
}

func writeFusedPlans(w *bytes.Buffer, a planning.Arch, d kernels.DType) {
	for _, n := range []int{1, 2, 17, 4096, 28672, 128256} {
		for _, k := range []int{1, 9, 1000, 4096, 14336, 100000} {
			for _, norm := range []bool{false, true} {
				p := kernels.FusedProduct{N: n, K: k, DType: d, Norm: norm, Gated: n%2 == 0, Epsilon: 1e-5}
				if fusedReason(a, p) != "" {
					continue
				}
				_, label := fusedPlan(a, p, fusedAddresses{ldb: support.PackedLDB(d, k)})
				fmt.Fprintf(w, "fused n%d k%d norm %v: %s\n", n, k, norm, label)
			}
		}
	}
}
