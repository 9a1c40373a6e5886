package attention

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// TestAttentionPlansAreKept compares plans with testdata/plans.txt.gz; -update-plans accepts the new ones.
func TestAttentionPlansAreKept(t *testing.T) {
	var text bytes.Buffer
	for _, a := range cudatest.Archs {
		for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
			fmt.Fprintf(&text, "%d with %d multiprocessors, %s\n", a.CC, a.SMs, d)
			writeAttentionPlans(t, &text, a, d)
		}
	}
	cudatest.Golden(t, "plans.txt.gz", text.String())
}

func writeAttentionPlans(t *testing.T, w *bytes.Buffer, a planning.Arch, d kernels.DType) {
	var times bytes.Buffer
	for i, p := range attentionProblems(t, d) {
		fmt.Fprintf(w, "attention %d", i)
		for _, f := range attentionFamilies {
			if f.Supports(a, p) != "" {
				continue
			}
			plan := f.Plan(a, p)
			fmt.Fprintf(w, "; %s %s", f.Name(), plan.Label)
			fmt.Fprintf(&times, "%s %.6g\n", plan.Label, plan.Seconds)
		}
		if best, _, ok := planning.Pick(attentionFamilies, a, p); ok {
			fmt.Fprintf(w, "; auto %s", best.Name())
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "attention times %x\n", sha256.Sum256(times.Bytes()))
}
