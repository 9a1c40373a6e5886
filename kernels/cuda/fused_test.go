//go:build cuda

package cuda

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cublas"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func init() { scenarios["fused"] = fusedScenario }

func fusedScenario() {
	d := scenarioDevice()
	for _, k := range d.Kernels(kernels.FusedGEMM) {
		fmt.Println(k.Name())
	}
	k, err := kernels.Find(d, kernels.FusedGEMM, os.Getenv(kernelEnv))
	report(err)
	s, errs := kernels.FusedGEMM.Definition().Gate(context.Background(), d, []kernels.Kernel{k}, kernels.DType(os.Getenv(dtypeEnv)), 1)
	report(append(errs, d.Close())...)
	fmt.Printf("%d passed\n", s[0].Passed)
	for _, why := range s[0].Skipped {
		fmt.Println(why)
	}
}

// The fake cuBLASLt computes its epilogues, so operands, biases and their order must arrive correctly. Epilogues that the library
// lacks are refused with the reason.
func TestBlasFusedPassesGate(t *testing.T) {
	driver, blas := fakeDriver(t), fakeBLAS(t, t.TempDir())
	for _, dt := range []kernels.DType{kernels.FP32, kernels.BF16} {
		own := 0
		for _, task := range kernels.FusedGEMM.Definition().Cases(dt) {
			switch task.Epilogue.Step() {
			case 0, kernels.ReLU, kernels.Residual:
				own++
			case kernels.TanhGELU:
				own += planning.OneIf(dt.Size() == 2)
			}
		}
		for _, kernel := range []string{"cublaslt", "cublaslt:1"} {
			out, _ := child(t, "fused", driver, cublas.Env+"="+blas, kernelEnv+"="+kernel, dtypeEnv+"="+string(dt))
			for _, want := range []string{fmt.Sprintf("\n%d passed\n", own), "its gelu is gelu-tanh", "not silu", "\ncublas-separate\n",
				"\nauto-separate\n"} {
				if !strings.Contains(out, want) {
					t.Errorf("%s %s: no %q in\n%s", kernel, dt, want, out)
				}
			}
			if testing.Short() {
				break
			}
		}
	}
}
