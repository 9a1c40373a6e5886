//go:build cuda

package cuda

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Fused products past the gate, with every kernel and epilogue.
func TestFused(t *testing.T) {
	d := gpu(t)
	for _, k := range d.Kernels(kernels.FusedGEMM) {
		t.Run(k.Name(), func(t *testing.T) {
			passed := 0
			for _, dt := range kernels.FusedGEMM.Definition().DTypes {
				found, errs := kernels.FusedGEMM.Definition().Gate(t.Context(), d, []kernels.Kernel{k}, dt, 1)
				if errs[0] != nil {
					t.Errorf("%s: %v", dt, errs[0])
				}
				passed += found[0].Passed
				t.Logf("%s: %d cases, %.3f of the bound, refused %v", dt, found[0].Passed, found[0].Margin, found[0].Skipped)
			}
			if passed == 0 {
				t.Error("refuses every fused product")
			}
		})
	}
}

// fusedProblems have tails in every direction, unaligned rows, several tiles, and a K of several stages.
func fusedProblems(dt kernels.DType) []kernels.Task {
	at := func(m, n, k int, layout kernels.Layout) kernels.Task {
		return kernels.Task{Subject: kernels.Product(dt, n, k).In(layout), M: m}
	}
	all := []kernels.Task{at(67, 193, 259, kernels.Transposed), at(8, 136, 520, kernels.RowMajor), at(1, 72, 136, kernels.Transposed),
		at(3, 65, 131, kernels.RowMajor), at(8, 264, 512, kernels.Transposed), at(70, 200, 328, kernels.Transposed),
		at(300, 320, 384, kernels.Transposed), at(410, 200, 256, kernels.Transposed), at(19, 208, 520, kernels.Transposed),
		at(130, 352, 264, kernels.RowMajor)}
	if testing.Short() { // limited for slow sanitizers
		return []kernels.Task{all[0], all[1], all[8]}
	}
	return all
}

// TestSmallFused runs the kernels with epilogues in every tile and schedule that a plan may choose, with blocks of one tile and of
// several, whole and cut along K.
func TestSmallFused(t *testing.T) {
	d := gpu(t)
	plain := []kernels.Epilogue{kernels.Bias + kernels.GELU, kernels.Bias + kernels.ReLU, kernels.Bias, kernels.TanhGELU,
		kernels.Bias + kernels.Residual, kernels.Bias + kernels.SiLU, kernels.Residual, kernels.ReLU}
	for _, f := range fusedFamilies {
		for _, dt := range []kernels.DType{kernels.BF16, kernels.FP16} {
			t.Run(f.Name()+"/"+dt.String(), func(t *testing.T) {
				ran := map[string]int{}
				for _, task := range append(fusedProblems(dt), fusedOnFew(dt)...) {
					// Gated products have fewer ways.
					for _, epilogues := range [][]kernels.Epilogue{plain, {kernels.Bias + kernels.Gated, kernels.Gated}} {
						checkFusedWays(t, d, f, task, epilogues, ran)
					}
				}
				if len(ran) == 0 {
					t.Skip("nothing of this type")
				}
				t.Logf("%d ways: %v", len(ran), ran)
			})
		}
	}
}

func checkFusedWays(t *testing.T, d *Device, f gemm.Family, task kernels.Task, epilogues []kernels.Epilogue, ran map[string]int) {
	product, err := task.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	product.Epilogue = epilogues[0]
	for i, way := range fusedWays(d.Arch(), f, gemm.InBuffers(product), task.M > 500, ran) {
		plan := way.Plan(d.Arch(), gemm.InBuffers(product))
		fused := task
		fused.Operation, fused.Epilogue = kernels.FusedGEMM, epilogues[(i+task.M)%len(epilogues)]
		k := gemm.NewFusedKernel(d.Device, f.Name(), []gemm.Family{way})
		if _, err := kernels.CheckByReference(t.Context(), d, k, fused, 1); err != nil {
			t.Errorf("%v: %s: %v", fused, plan.Label, err)
		}
	}
}

// fusedOnFew are products for which blocks have several tiles if few run.
func fusedOnFew(dt kernels.DType) []kernels.Task {
	all := []kernels.Task{{Subject: kernels.Linear(dt, 576, 528), M: 520}, {Subject: kernels.Product(dt, 256, 192), M: 1000}}
	if testing.Short() {
		return all[1:]
	}
	return all
}

// fusedWays returns ways to compute p that did not run often enough; on few multiprocessors those whose blocks have several tiles.
func fusedWays(a planning.Arch, f gemm.Family, p gemm.Problem, onFew bool, ran map[string]int) []gemm.Family {
	times := 2
	if testing.Short() {
		times = 1
	}
	if onFew {
		if f.Name() != "hopper" {
			return nil
		}
		a.SMs = fewSMs
	}
	var out []gemm.Family
	for _, way := range cudatest.Ways(a, f, p) {
		plan := way.Plan(a, p)
		key := fusedKey(plan, p.Task)
		if onFew {
			if strings.Contains(key, "_narrow_") {
				continue
			}
			way, key = few{way}, key+" few"
		}
		if ran[key] >= times {
			continue
		}
		ran[key]++
		out = append(out, way)
	}
	return out
}

func fusedKey(plan gemm.Plan, p kernels.Task) string {
	return fmt.Sprint(symbolOf(plan), plan.Flags > 0, p.Epilogue.IsGated())
}
