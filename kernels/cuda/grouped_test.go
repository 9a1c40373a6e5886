//go:build cuda

package cuda

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cublas"
)

func init() {
	scenarios["grouped gate"] = groupedGate
	scenarios["grouped"] = groupedScenario
	scenarios["grouped many"] = manyGrouped
}

// groupedGate runs the gate of grouped products on some kernels.
func groupedGate() {
	d := scenarioDevice()
	var ks []kernels.Kernel
	for name := range strings.SplitSeq(os.Getenv(kernelEnv), ",") {
		k, err := kernels.Find(d, kernels.GroupedGEMM, name)
		report(err)
		ks = append(ks, k)
	}
	found, errs := kernels.GroupedGEMM.Definition().Gate(context.Background(), d, ks, kernels.DType(os.Getenv(dtypeEnv)), 1)
	report(append(errs, d.Close())...)
	for i, k := range ks {
		fmt.Printf("%s: %d passed, %d skipped\n", k.Name(), found[i].Passed, len(found[i].Skipped))
	}
}

// groupedScenario runs a product of five groups with rows, in a stream and in a graph.
func groupedScenario() {
	d := scenarioDevice()
	k, err := kernels.Find(d, kernels.GroupedGEMM, os.Getenv(kernelEnv))
	report(err)
	if err != nil {
		return
	}
	fmt.Println(k.Describe())
	s := kernels.Subject{Operation: kernels.GroupedGEMM, DType: kernels.DType(os.Getenv(dtypeEnv))}
	s.Dims = kernels.Dims{N: 16, K: 32, Groups: 8}
	t := kernels.Task{Subject: s.In(kernels.Transposed), M: 5}
	if rows, _ := strconv.Atoi(os.Getenv(productsEnv)); rows > 0 {
		t.Groups, t.M = rows, rows
	}
	var buffers [3]kernels.Buffer
	for i := range buffers {
		buffers[i], err = d.Alloc(1 << 20)
		report(err)
	}
	w, err := k.Prepare(t, buffers[1])
	report(err)
	if err != nil {
		return
	}
	l, err := k.Bind(t, kernels.Operand{Buffer: buffers[0]}, w, kernels.Operand{Buffer: buffers[2]})
	report(err)
	if err == nil {
		_, err = d.Execute(context.Background(), []kernels.Launch{l}, 2)
		report(err)
		fmt.Println("label:", l.Label())
		os.Stderr.WriteString("captured:\n")
		_, err = d.(*Device).SerialGraph([]kernels.Launch{l, l})
		report(err)
	}
	report(w.Close(), d.Close())
	fmt.Println("done")
}

// manyGrouped binds launches that need more tables of addresses than one allocation has, and drops them.
func manyGrouped() {
	d := scenarioDevice()
	k, err := kernels.Find(d, kernels.GroupedGEMM, "cublas-grouped")
	report(err)
	memory, err := d.Alloc(1 << 20)
	report(err)
	s := kernels.Subject{Operation: kernels.GroupedGEMM, DType: kernels.BF16, Dims: kernels.Dims{N: 16, K: 32, Groups: 8}}
	t := kernels.Task{Subject: s.In(kernels.Transposed), M: 8}
	w, err := k.Prepare(t, memory)
	report(err)
	for i := range 20_000 {
		if _, err := k.Bind(t, kernels.Operand{Buffer: memory}, w, kernels.Operand{Buffer: memory}); err != nil {
			report(err)
			return
		}
		if i%2000 == 0 {
			runtime.GC()
		}
	}
	report(w.Close(), d.Close())
	fmt.Println("done")
}

// The memory of tables is used again once their launches are gone.
func TestTables(t *testing.T) {
	driver, blas := fakeDriver(t), fakeBLAS(t, t.TempDir())
	out, trace := child(t, "grouped many", driver, cublas.Env+"="+blas, "FAKE_CUDA_TRACE=1")
	// The operands, the library's workspace, and few tables of 4096 places.
	if n := strings.Count(trace, "calls cuMemAlloc_v2 "); out != "done\n" || n > 2+3 {
		t.Errorf("printed %q after %d allocations", out, n)
	}
	if made, gone := strings.Count(trace, "calls cuMemAlloc_v2 "), strings.Count(trace, "calls cuMemFree_v2 "); made != gone+1 {
		t.Errorf("%d allocations, %d freed, expected all but the operands", made, gone)
	}
}

// libraryGrouped are the kernels of libraries for grouped products.
var libraryGrouped = []string{"cublas", "cublas-streams", "cublas-grouped", "cublaslt", "cublaslt-streams"}

// The fake library computes: every group's rows and weights must arrive.
func TestLibrariesPassGroupedGate(t *testing.T) {
	driver, blas := fakeDriver(t), fakeBLAS(t, t.TempDir())
	for _, dtype := range []string{"bf16", "fp16", "fp32"} {
		quantized := 0 // refused
		for _, task := range kernels.GroupedGEMM.Definition().Cases(kernels.DType(dtype)) {
			if task.Quantized() {
				quantized++
			}
		}
		out, _ := child(t, "grouped gate", driver, cublas.Env+"="+blas, kernelEnv+"="+strings.Join(libraryGrouped, ","), dtypeEnv+"="+dtype)
		var want string
		for _, name := range libraryGrouped {
			want += fmt.Sprintf("%s: 9 passed, %d skipped\n", name, quantized)
		}
		if out != want {
			t.Errorf("%s: %q, want %q", dtype, out, want)
		}
	}
}

// A fork and its end are events, in a stream and in a graph; groups without rows are left out of calls.
func TestGroupedCalls(t *testing.T) {
	driver, blas := fakeDriver(t), fakeBLAS(t, t.TempDir())
	for _, c := range []struct {
		kernel, dtype string
		out           string
		trace         map[string]int // how often each text is in it
	}{
		// The first run, two runs, a capture of two, and one of each kind of product for the kernel's name.
		{"cublas", "bf16", "label: nvjet_128x256 + cublasLt::splitK, in sequence\n",
			map[string]int{"create\n": 1, "waits for event": 0, "gemm 1 m16 n1 k32 lda32 ldb32 ldc16 types 14 14 68": 29}},
		{"cublas-streams", "bf16", "label: nvjet_128x256 + cublasLt::splitK, in 4 streams\n",
			map[string]int{"create\n": 4, "waits for event": 5 * 8, "gemm 1 m16 n1 k32 lda32 ldb32 ldc16 types 14 14 68": 29}},
		{"cublaslt-streams", "fp16", "label: algo 66 tile 128x256x64 stages 4 cluster 2x1 splitk 1, in 4 streams\n",
			map[string]int{"lt create\n": 4, "waits for event": 5 * 8, "lt gemm algo 66 workspace 33554432": 25}},
		{"cublas-grouped", "bf16", "label: nvjet_128x256 + cublasLt::splitK\n",
			map[string]int{"create\n": 1, "waits for event": 0, "group 1 m16 n1 k32 lda32 ldb32 ldc16 types 14 68": 30}},
		{"cublaslt-streams", "fp8", "label: algo 66 tile 128x256x64 stages 4 cluster 2x1 splitk 1, in 4 streams\n",
			map[string]int{"waits for event": 5 * 8, "lt gemm algo 66 workspace 33554432": 25}},
		{"cublas-streams", "int8", "label: nvjet_128x256 + cublasLt::splitK, in 4 streams\n",
			map[string]int{"waits for event": 5 * 8, "gemm 1 m16 n1 k32 lda32 ldb32 ldc16 types 3 10 72": 29}},
		{"cublas-grouped", "fp8", "kernel cublas-grouped does not support fp8: cublasGemmGroupedBatchedEx does not take fp8", nil},
		{"cublaslt-fast-streams", "fp8", `unknown kernel "cublaslt-fast-streams" for grouped`, nil},
	} {
		t.Run(c.kernel+" "+c.dtype, func(t *testing.T) {
			out, trace := child(t, "grouped", driver, cublas.Env+"="+blas, "FAKE_CUBLAS_TRACE=1", "FAKE_CUDA_TRACE=1",
				kernelEnv+"="+c.kernel, dtypeEnv+"="+c.dtype)
			if !strings.Contains(out, c.out) || c.trace != nil && (strings.Contains(out, "error") || !strings.HasSuffix(out, "done\n")) {
				t.Errorf("printed %q, want %q in it", out, c.out)
			}
			for text, want := range c.trace {
				if got := strings.Count(trace, text); got != want {
					t.Errorf("%q is %d times in the trace, want %d", text, got, want)
				}
			}
		})
	}
}

// A launch may have more kernels than a chunk of a block, up to what a stream queues.
func TestManyGroups(t *testing.T) {
	driver, blas := fakeDriver(t), fakeBLAS(t, t.TempDir())
	for _, c := range []struct{ kernel, groups, want string }{
		{"cublas", "450", "label: nvjet_128x256 + cublasLt::splitK, in sequence\ndone\n"},
		{"cublas-streams", "450", "in 4 streams\ndone\n"},
		{"cublas-streams", "451", "kernel cublas-streams does not support bf16: 451 groups have rows"},
		{"cublas-grouped", "1000", "label: nvjet_128x256 + cublasLt::splitK\ndone\n"},
	} {
		out, _ := child(t, "grouped", driver, cublas.Env+"="+blas, kernelEnv+"="+c.kernel, dtypeEnv+"=bf16", productsEnv+"="+c.groups)
		if !strings.Contains(out, c.want) {
			t.Errorf("%s, %s groups: %q, want %q in it", c.kernel, c.groups, out, c.want)
		}
	}
}

// Failures in a lane name the library's or the driver's reason; an older library refuses.
func TestGroupedFailures(t *testing.T) {
	driver, blas := fakeDriver(t), fakeBLAS(t, t.TempDir())
	older := fakeBLAS(t, t.TempDir(), "-DcublasGemmGroupedBatchedEx=other")
	for _, c := range []struct{ kernel, blas, env, want string }{
		{"cublas-streams", blas, "FAKE_CUBLAS_FAIL=cublasGemmEx:3:13", "cublas: CUBLAS_STATUS_EXECUTION_FAILED (status 13)"},
		{"cublas-streams", blas, "FAKE_CUBLAS_FAIL=cublasCreate_v2:2:1", "open cuBLAS: CUBLAS_STATUS_NOT_INITIALIZED"},
		{"cublas-streams", blas, "FAKE_CUDA_FAIL=cuStreamWaitEvent:1:801", "fake error 801"},
		{"cublas-streams", blas, "FAKE_CUDA_FAIL=cuStreamWaitEvent:9:700", "lost: true"},
		{"cublas-streams", blas, "FAKE_CUDA_FAIL=cuStreamCreate:3:2", "create a stream: fake error 2 (CUDA_ERROR_OUT_OF_MEMORY)"},
		{"cublas-grouped", blas, "FAKE_CUBLAS_FAIL=cublasGemmGroupedBatchedEx:1:15",
			"kernel cublas-grouped does not support bf16: cublas-grouped: CUBLAS_STATUS_NOT_SUPPORTED (status 15)"},
		{"cublas-grouped", "/nowhere/libcublas.so.12", "", `"cublas-grouped" is not available on cuda:0: libcublas`},
		{"cublas-grouped", older, "",
			"it comes with cuBLAS 12.5"},
	} {
		out, _ := child(t, "grouped", driver, cublas.Env+"="+c.blas, kernelEnv+"="+c.kernel, dtypeEnv+"=bf16", c.env)
		if !strings.Contains(out, c.want) {
			t.Errorf("%s %s: %q, want %q in it", c.kernel, c.env, out, c.want)
		}
	}
}
