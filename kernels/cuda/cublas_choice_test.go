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
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

func init() {
	scenarios["choices"] = choicesScenario
	scenarios["asked"] = askedScenario
}

func choicesScenario() {
	os.Unsetenv(kernelEnv)
	devices, _ := Provider{}.Open()
	d := devices[0]
	for _, g := range kerneltest.Tellers(d, 2) {
		for _, t := range kernels.DTypes() {
			for _, p := range []kernels.Task{
				{Subject: kernels.Product("", 64, 64), M: 3},
				{Subject: kernels.Linear("", 256, 64), M: 130},
				{Subject: kernels.Product("", 33, 65), M: 5, LDA: 67, PackInside: true},
			} {
				p.DType = t
				report(kerneltest.CheckChoice(context.Background(), d, g, p))
			}
		}
		fmt.Println("told:", g.Name())
	}
	report(d.Close())
}

func askedScenario() {
	d, g := scenarioKernel()
	for m := 1; m <= 5; m++ {
		c, err := g.Choice(kernels.Task{Subject: kernels.Linear(kernels.BF16, 8, 32), M: m})
		report(err)
		if err == nil {
			if c.Algorithm.ID > 0 &&
				!strings.HasPrefix(c.Label, fmt.Sprintf("algo %d tile 128x256x64 stages 4 cluster 2x1 splitk 1", c.Algorithm.ID)) ||
				c.Algorithm.ID == 0 && g.Name() != "cublas" {
				fmt.Printf("error: %s has the attributes %+v\n", c.Label, c.Algorithm)
			}
			fmt.Printf("%s: tile %v split %d %s stages %d cluster %v grid %v slots %g\n",
				c.Label, c.Tile, c.Split, c.Orientation, c.Stages, c.Cluster, c.Grid, c.Slots)
		}
	}
	report(d.Close())
}

func TestChoicesAreWhatRuns(t *testing.T) {
	out, _ := child(t, "choices", fakeDriver(t), cublas.Env+"="+fakeBLAS(t, t.TempDir()))
	for _, name := range []string{"auto", "auto-serial", "hopper", "mma", "gemv", "wmma", "tiled", "naive", "cublas",
		"cublaslt", "cublaslt:1", "cublaslt:2", "cublaslt-fast"} {
		if !strings.Contains(out, "told: "+name+"\n") {
			t.Errorf("%s does not say what it would run", name)
		}
	}
	if strings.Contains(out, "error:") {
		t.Error(out)
	}
}

// Queries launch nothing; first-use loading happens once.
func TestAskedLibraries(t *testing.T) {
	driver, blas := fakeDriver(t), fakeBLAS(t, t.TempDir())
	const nvjet = "nvjet_128x256 + cublasLt::splitK: tile [256 128 0] split 2 transposed stages 0 cluster [2 1 1] grid [8 4 1] slots 132\n"
	const algo = "algo 66 tile 128x256x64 stages 4 cluster 2x1 splitk 1: tile [256 128 64] split 1 transposed stages 4 cluster [2 1 1] " +
		"grid [0 0 0] slots 132\n"
	ran := func(trace string) int { return strings.Count(trace, "calls cuEventElapsedTime") }
	_, idle := child(t, "asked", driver, cublas.Env+"="+blas, "FAKE_CUDA_TRACE=1", kernelEnv+"=cublaslt:7")
	for _, c := range []struct {
		name, kernel string
		env          []string
		want         string
		runs         bool
	}{
		{"cublas", "cublas", nil, strings.Repeat(nvjet, 5), false},
		{"code can't be loaded in a capture", "cublas", []string{"FAKE_CUDA_FAIL=cuStreamEndCapture:2:900"}, strings.Repeat(nvjet, 5),
			true},
		{"the library fails in a capture", "cublas", []string{"FAKE_CUBLAS_FAIL=cublasGemmEx:1:14"}, strings.Repeat(nvjet, 5), true},
		{"an old driver", "cublas", []string{"FAKE_CUDA_FAIL=cuGraphGetNodes:1:801"},
			"error: cuda:0: the driver does not tell what cublas launches", false},
		{"first", "cublaslt", nil, strings.Repeat(algo, 5), false},
		{"second", "cublaslt:1", nil, strings.Repeat(strings.Replace(algo, "66", "67", 1), 5), false},
		{"by its attributes", builtAlgorithm, nil, strings.Repeat(strings.Replace(algo, "66", "71", 1), 5), false},
		{"not taken", strings.Replace(builtAlgorithm, "cluster3", "cluster4", 1), nil, "cuBLASLt does not take the algorithm for it",
			false},
		{"no such choice", "cublaslt:7", nil, "kernel cublaslt:7 does not support bf16: cuBLASLt offers 3 algorithms for it", false},
		{"nothing for it", "cublaslt", []string{"FAKE_CUBLAS_ALGOS=0"}, "cuBLASLt has no algorithm for it", false},
		{"out of memory", "cublaslt", []string{"FAKE_CUBLAS_FAIL=cublasLtMatmulAlgoGetHeuristic:1:3"},
			"ask cuBLASLt for an algorithm: CUBLAS_STATUS_ALLOC_FAILED", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := append([]string{cublas.Env + "=" + blas, "FAKE_CUDA_TRACE=1", "FAKE_CUBLAS_TRACE=1", kernelEnv + "=" + c.kernel},
				c.env...)
			out, trace := child(t, "asked", driver, env...)
			if !strings.Contains(out, c.want) {
				t.Errorf("printed %s\nexpected %s", out, c.want)
			}
			if n := ran(trace) - ran(idle); n > 0 != c.runs || n > 1 {
				t.Errorf("%d products ran", n)
			}
			if c.name != "first" {
				return
			}
			for m := 1; m <= 5; m++ {
				if ask := fmt.Sprintf("b 32x%d/32 c 8x%d/8", m, m); strings.Count(trace, ask) != 1 {
					t.Errorf("%d questions of %s", strings.Count(trace, ask), ask)
				}
			}
			if n := strings.Count(trace, "lt live"); n > 5+4 {
				t.Errorf("%d objects were made", n)
			}
		})
	}
}
