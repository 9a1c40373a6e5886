//go:build cuda

package cuda

import (
	"context"
	"fmt"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/quantised"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func smallQuantized(t *testing.T, d kernels.DType, bits int) []kernels.Task {
	t.Helper()
	var out []kernels.Task
	add := func(m, n, k, group int, zeros bool, longer int) {
		f, err := kernels.IntegerWeights(bits, group, zeros).For(d, k)
		if err != nil {
			t.Fatal(err)
		}
		p := kernels.Task{Subject: kernels.Linear(d, n, k), M: m, LDA: k + longer, LDC: n + longer}
		out = append(out, p.WithWeights(f))
	}
	for _, zeros := range []bool{false, true} {
		for _, group := range []int{32, 64, 128} {
			// For each kernel for few rows: shifted windows, absent units, clusters along K, refilled rings.
			add(3, 130, 640, group, zeros, 3)
			add(13, 136, 2432, group, zeros, 0)
			add(27, 200, 2432, group, zeros, 0)
			add(27, 136, 2304, group, zeros, 1)
			add(50, 330, 2304, group, zeros, 0)
			if testing.Short() { // limited for slow sanitizers
				add(67, 193, 640, group, zeros, 1)
				continue
			}
			add(1, 72, 384, group, zeros, 0)
			add(70, 200, 384, group, zeros, 1)
			add(300, 200, 640, group, zeros, 0)
		}
		add(8, 136, 520, 0, zeros, 0)
		if !testing.Short() {
			add(140, 264, 1024, 0, zeros, 0)
		}
	}
	return out
}

// TestSmallQuantized runs every kernel for quantized weights in every schedule that a plan may choose. Eight
// parts let processes share the work under a sanitizer: -run 'TestSmallQuantized/w4a16/bf16/[0-3]'.
func TestSmallQuantized(t *testing.T) {
	d := gpu(t)
	for _, f := range []quantised.Integers{{Bits: 4}, {Bits: 8}} {
		for _, dt := range []kernels.DType{kernels.BF16, kernels.FP16} {
			t.Run(f.Name()+"/"+dt.String(), func(t *testing.T) {
				ran, part := map[string]int{}, map[string]int{}
				for _, q := range smallQuantized(t, dt, f.Bits) {
					q, err := q.Normalized()
					if err != nil {
						t.Fatal(err)
					}
					aligned := gemm.Alignment{A: planning.AlignmentOf(0, int64(q.LDA*dt.Size())),
						C: planning.AlignmentOf(0, int64(q.LDC*dt.Size()))}
					p := quantised.Problem{Task: q, Aligned: aligned}
					for _, way := range cudatest.Ways(d.Arch(), gemm.Family(f), p) {
						plan := way.Plan(d.Arch(), p)
						key := fmt.Sprint(symbolOf(plan), plan.Flags > 0, plan.Tiling.Split > 1)
						if ran[key] >= 3 || testing.Short() && ran[key] > 0 {
							continue
						}
						if _, known := part[key]; !known {
							part[key] = len(part) % 8
						}
						ran[key]++
						t.Run(fmt.Sprintf("%d/%s/m%d", part[key], symbolOf(plan), q.M), func(t *testing.T) {
							k := gemm.NewKernel(d.Device, f.Name(), "", gemm.Families{Quantized: []gemm.Family{way}})
							if _, err := kernels.CheckMargin(context.Background(), d, k, q, 1); err != nil {
								t.Error(err)
							}
						})
					}
				}
				if len(ran) == 0 {
					t.Skip("nothing of this type")
				}
				t.Logf("%d ways", len(ran))
			})
		}
	}
}
