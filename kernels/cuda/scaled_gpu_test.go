//go:build cuda

package cuda

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/quantised"
)

// clusterOf finds the arrangement of a cluster in a label.
var clusterOf = regexp.MustCompile(`cluster \d+x\d+`)

// TestSmallScaled runs the kernels for fp8 with scales in every schedule that a plan may choose: tails along N, K and M, sums
// of one sign over a long K, tiles in several parts, C that TMA can't store.
func TestSmallScaled(t *testing.T) {
	d := gpu(t)
	ran := map[string]int{}
	for _, of := range []string{"fp8:128x128", "fp8:128", "fp8:column"} {
		for _, size := range [][3]int{{3, 136, 7168}, {17, 264, 1040}, {40, 128, 4096}, {60, 400, 528}, {90, 130, 2048}, {130, 264, 7168},
			{161, 136, 512}, {300, 520, 640}, {513, 1030, 256}} {
			q := scaledProduct(t, of, size)
			p := gemm.InBuffers(q)
			if why := (quantised.Scaled{}).Supports(d.Arch(), p); why != "" {
				t.Logf("%s %v: %s", of, q, why)
				continue
			}
			var check *kernels.GemmCheck // of all ways
			for _, way := range cudatest.Ways(d.Arch(), gemm.Family(quantised.Scaled{}), p) {
				plan := way.Plan(d.Arch(), p)
				key := fmt.Sprint(symbolOf(plan), plan.Flags > 0, clusterOf.FindString(plan.Label))
				if ran[key] >= 2 || testing.Short() && ran[key] > 0 {
					continue
				}
				ran[key]++
				if check == nil {
					var err error
					if check, err = kernels.NewGemmCheck(q, 1); err != nil {
						t.Fatal(err)
					}
				}
				t.Run(fmt.Sprintf("%s/%s/m%d", of, symbolOf(plan), q.M), func(t *testing.T) {
					k := gemm.NewKernel(d.Device, "fp8-scaled", "", gemm.Families{Scaled: []gemm.Family{way}})
					margin, err := check.Margin(t.Context(), d, k)
					if err != nil {
						t.Error(err)
					}
					t.Logf("%s: %.3f of the bound", plan.Label, margin)
				})
			}
		}
	}
	t.Logf("%d ways", len(ran))
}

func scaledProduct(t *testing.T, of string, size [3]int) kernels.Task {
	f, err := kernels.ParseWeights(of)
	if err == nil {
		f, err = f.For(kernels.FP8, size[2])
	}
	if err != nil {
		t.Fatal(err)
	}
	q, err := kernels.Task{Subject: kernels.Linear(kernels.FP8, size[1], size[2]), M: size[0]}.WithWeights(f).Normalized()
	if err != nil {
		t.Fatal(err)
	}
	return q
}
