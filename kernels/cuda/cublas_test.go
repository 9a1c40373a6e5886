//go:build cuda

package cuda

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cublas"
)

func init() {
	scenarios["gate"] = gateScenario
	scenarios["product"] = productScenario
	scenarios["subjects"] = subjectsScenario
	scenarios["twice"] = twiceScenario
}

const (
	kernelEnv   = "GEMMAUDIT_TEST_KERNEL"
	dtypeEnv    = "GEMMAUDIT_TEST_DTYPE"
	layoutEnv   = "GEMMAUDIT_TEST_LAYOUT"
	productsEnv = "GEMMAUDIT_TEST_PRODUCTS"
)

func scenarioDevice() kernels.Device {
	devices, missing := Provider{}.Open()
	if len(devices) == 0 {
		fmt.Println(missing)
		os.Exit(0)
	}
	return devices[0]
}

func scenarioKernel() (kernels.Device, kernels.Kernel) {
	d := scenarioDevice()
	g, err := kernels.Find(d, kernels.GEMM, os.Getenv(kernelEnv))
	report(err)
	return d, g
}

// plainWeights hides support for quantized weights. Our kernels unpack those on the device, and the fake
// driver runs no kernel.
type plainWeights struct{ kernels.Kernel }

func (k plainWeights) Supports(t kernels.Task) error {
	if t.Quantized() {
		return t.Unsupported(k.Name(), "its integers are hidden")
	}
	return k.Kernel.Supports(t)
}

func gateScenario() {
	d := scenarioDevice()
	var gs []kernels.Kernel
	for name := range strings.SplitSeq(os.Getenv(kernelEnv), ",") {
		g, err := kernels.Find(d, kernels.GEMM, name)
		report(err)
		gs = append(gs, plainWeights{g})
	}
	summaries, errs := kernels.CheckKernels(context.Background(), d, gs, kernels.DType(os.Getenv(dtypeEnv)), 1)
	report(append(errs, d.Close())...)
	for _, s := range summaries {
		fmt.Printf("%d passed, %d skipped\n", s.Passed, len(s.Skipped))
		if len(s.Skipped) > 0 {
			fmt.Println(s.Skipped[0])
		}
	}
}

func twiceScenario() {
	d, g := scenarioKernel()
	p := kernels.Task{Subject: kernels.Product(kernels.BF16, 8, 32), M: 3}
	for range 2 {
		fmt.Println("supports:", g.Supports(p))
	}
	report(d.Close())
}

func productScenario() {
	d, g := scenarioKernel()
	p := kernels.Task{Subject: kernels.Product(kernels.DType(os.Getenv(dtypeEnv)), 8, 32), M: 3, LDA: 48, LDC: 12}
	var err error
	p.Layout, err = kernels.ParseLayout(os.Getenv(layoutEnv))
	if err != nil {
		report(err)
		return
	}
	if p.LDB = 10; p.Layout == kernels.Transposed {
		p.LDB = 40
	}
	if products, _ := strconv.Atoi(os.Getenv(productsEnv)); products > 0 {
		p.StrideB = 50 * p.LDB
		runBatch(d, g, p.Batch(products))
		return
	}
	var buffers [3]kernels.Buffer
	for i := range buffers {
		b, err := d.Alloc(1 << 16)
		report(err)
		buffers[i] = b
	}
	w, err := g.Prepare(p, buffers[1])
	report(err)
	if err == nil {
		l, err := g.Bind(p, kernels.Operand{Buffer: buffers[0], Offset: 48}, w, kernels.Operand{Buffer: buffers[2], Offset: 12})
		report(err)
		if err == nil {
			fmt.Println("label:", l.Label())
			printTiling(l)
			_, err := d.Execute(context.Background(), []kernels.Launch{l}, 2)
			report(err)
			fmt.Println("label after it ran:", l.Label())
			printTiling(l)
		}
		report(w.Close())
	}
	for _, b := range buffers {
		report(b.Close())
	}
	report(d.Close())
}

func printTiling(l kernels.Launch) {
	t := kernels.TilingOf(l)
	fmt.Printf("tiling: %v waves %.2f split %d %s\n", t.Tile, t.Waves, t.Split, t.Orientation)
}

func runBatch(d kernels.Device, g kernels.Kernel, b kernels.Task) {
	var buffers [3]kernels.Buffer
	for i := range buffers {
		var err error
		buffers[i], err = d.Alloc(1 << 16)
		report(err)
	}
	batcher := g
	w, err := batcher.Prepare(b, buffers[1])
	report(err)
	if err == nil {
		l, err := batcher.Bind(b, kernels.Operand{Buffer: buffers[0], Offset: 48}, w, kernels.Operand{Buffer: buffers[2], Offset: 12})
		report(err)
		if err == nil {
			_, err := d.Execute(context.Background(), []kernels.Launch{l}, 1)
			report(err)
		}
		_, err = batcher.Bind(b, kernels.Operand{Buffer: buffers[0]}, w, kernels.Operand{Buffer: buffers[2], Offset: 1 << 15})
		report(err)
		report(w.Close())
	}
	report(d.Close())
}

func subjectsScenario() {
	devices, _ := Provider{}.Open()
	for _, d := range devices {
		for _, g := range d.Kernels(kernels.GEMM) {
			if strings.HasPrefix(g.Name(), "cublas") {
				fmt.Printf("%s: %s\n", g.Name(), g.Describe())
			}
		}
		for _, m := range d.Missing() {
			if strings.HasPrefix(m.Name, "cublas") {
				fmt.Printf("%s is missing: %s\n", m.Name, m.Reason)
			}
		}
		fmt.Println("versions", d.Spec().Versions["cublas"], d.Spec().Versions["cublaslt"])
	}
	report(kernels.NewRegistry(Provider{}).Close())
}

func fakeBLAS(t *testing.T, dir string, options ...string) string {
	t.Helper()
	for _, lib := range [][]string{{"libcublasLt.so.12", "-DLT"}, {"libcublas.so.12"}} {
		compile(t, "cc", filepath.Join(dir, lib[0]),
			slices.Concat(lib[1:], options, []string{"-O2", filepath.Join("testdata", "fake_cublas.c"), "-lm"})...)
	}
	return dir
}

// gated returns the gate's output for a kernel that passes every task with plain weights and refuses the others.
func gated(kernel string, d kernels.DType) string {
	passed := len(kernels.CheckProblems(d)) + len(kernels.GateBatches(d)) + len(kernels.SpecialProblems(d)) + len(kernels.SpecialBatches(d))
	refused := len(kernels.QuantizedCheckProblems(d)) + len(kernels.SpecialQuantized(d))
	out := fmt.Sprintf("%d passed, %d skipped\n", passed, refused)
	if refused > 0 {
		out += fmt.Sprintf("kernel %s does not support %s with weights int4:32: its integers are hidden\n", kernel, d)
	}
	return out
}

// The fake library computes: operands, layouts, leading dimensions and offsets must arrive correctly.
func TestBlasPassesGate(t *testing.T) {
	driver, blas := fakeDriver(t), fakeBLAS(t, t.TempDir())
	for _, dtype := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
		if testing.Short() && dtype != kernels.FP16 {
			continue
		}
		names := []string{"cublas", "cublaslt"}
		if dtype == kernels.FP16 { // the choice of an algorithm does not depend on the type
			names = append(names, "cublaslt:2")
		}
		var want string
		for _, name := range names {
			want += gated(name, dtype)
		}
		out, _ := child(t, "gate", driver, cublas.Env+"="+blas, kernelEnv+"="+strings.Join(names, ","), dtypeEnv+"="+string(dtype))
		if out != want {
			t.Errorf("%s: %q, want %q", dtype, out, want)
		}
	}
	out, _ := child(t, "gate", driver, cublas.Env+"="+blas, kernelEnv+"="+builtAlgorithm, dtypeEnv+"=bf16")
	if want := gated(builtAlgorithm, kernels.BF16); out != want {
		t.Errorf("%s: %q, want %q", builtAlgorithm, out, want)
	}
	// The heuristic has no fourth choice: a refusal, not an error.
	out, _ = child(t, "gate", driver, cublas.Env+"="+blas, kernelEnv+"=cublaslt:3", dtypeEnv+"=fp32")
	if !strings.HasPrefix(out, "0 passed") ||
		!strings.Contains(out, "kernel cublaslt:3 does not support fp32: cuBLASLt offers 3 algorithms for it") {
		t.Errorf("cublaslt:3: %s", out)
	}
}

// builtAlgorithm names the fake library's algorithm 71, which its heuristic does not offer.
const builtAlgorithm = "cublaslt:id71_tile23_stages16_splitk1_red0_swizzle0_custom0_inner0_cluster3"

// Calls to the libraries use their column-major terms.
func TestBlasCalls(t *testing.T) {
	driver, blas := fakeDriver(t), fakeBLAS(t, t.TempDir())
	for _, c := range []struct {
		kernel, dtype, layout string
		want                  []string
		out                   string
	}{
		{"cublas", "fp32", "kn",
			[]string{"create\nmath 16\n", "stream\nworkspace 33554432\ngemm 0 m8 n3 k32 lda10 ldb48 ldc12 types 0 0 68 algo -1\n", "gemm 0",
				"destroy\n"},
			"label: \ntiling: [0 0 0] waves 0.00 split 0 \nlabel after it ran: nvjet_128x256 + cublasLt::splitK\n" +
				"tiling: [256 128 0] waves 0.00 split 2 transposed\n"},
		{"cublas", "tf32", "nk", []string{"gemm 1 m8 n3 k32 lda40 ldb48 ldc12 types 0 0 77 algo -1\n"}, ""},
		{"cublas", "fp16", "nk", []string{"gemm 1 m8 n3 k32 lda40 ldb48 ldc12 types 2 2 68 algo -1\n"}, ""},
		{"cublas", "bf16", "kn", []string{"gemm 0 m8 n3 k32 lda10 ldb48 ldc12 types 14 14 68 algo -1\n"}, ""},
		{"cublas", "int8", "kn", []string{"gemm 1 m8 n3 k32 lda32 ldb48 ldc12 types 3 10 72 algo -1\n"}, ""},
		{"cublas", "fp8", "kn", nil, "kernel cublas does not support fp8: cublasGemmEx does not take fp8, cublaslt does"},
		// Rows of 48 and 12 elements put A at byte 192 and C at byte 48.
		{"cublaslt", "fp32", "kn", []string{"lt create\n",
			"lt ask 1: 0 a 8x32/10 b 32x3/48 c 8x3/12 types 0 0 68 scale 0 fast 9 workspace 33554432 reductions 2 align 256 64 16 16\n",
			"lt gemm algo 66 workspace 33554432\n", "lt destroy\n"},
			"label: algo 66 tile 128x256x64 stages 4 cluster 2x1 splitk 1\ntiling: [256 128 64] waves 0.66 split 1 transposed\n"},
		{"naive", "fp32", "kn", []string{}, "label: 16x16\ntiling: [16 16 1] waves 0.00 split 1 \n"},
		{"cublaslt", "bf16", "nk", []string{"lt ask 1: 1 a 32x8/40 b 32x3/48 c 8x3/12 types 14 14 68 scale 0 fast 9", "lt gemm algo 66"},
			""},
		{"cublaslt", "fp8", "kn", []string{"lt ask 1: 1 a 32x8/32 b 32x3/48 c 8x3/12 types 28 14 68 scale 0 fast 0", "align 256 16 8 8\n",
			"lt gemm algo 66"}, ""},
		{"cublaslt-fast", "fp8", "nk",
			[]string{"lt ask 1: 1 a 32x8/32 b 32x3/48 c 8x3/12 types 28 14 68 scale 0 fast 1", "lt gemm algo 66"}, ""},
		{"cublaslt-fast:1", "fp8", "nk", []string{"lt ask 1:", "fast 1", "lt ask 16:", "lt gemm algo 67"}, "label: algo 67 "},
		{"cublaslt-fast", "bf16", "nk", nil, "kernel cublaslt-fast does not support bf16: fast accumulation is for fp8"},
		{"cublaslt", "int8", "nk", []string{"lt ask 1: 1 a 32x8/32 b 32x3/48 c 8x3/12 types 3 10 72 scale 10 fast 9", "lt gemm algo 66"},
			""},
		{"cublaslt:1", "fp16", "kn", []string{"lt ask 1:", "lt ask 16:", "lt gemm algo 67"}, "label: algo 67 "},
		{"cublaslt:2", "fp16", "kn", []string{"lt ask 16:", "lt gemm algo 68"}, "label: algo 68 "},
		{"cublaslt:20", "fp16", "kn", []string{"lt ask 128:"}, "cuBLASLt offers 3 algorithms for it"},
		{builtAlgorithm, "bf16", "nk", []string{"lt init algo 71 types 14 14 14 14 compute 68 scale 0\nlt check algo 71 m3\n",
			"lt gemm algo 71 workspace 33554432\n"},
			"label: algo 71 tile 128x256x64 stages 4 cluster 2x1 splitk 1\n"},
	} {
		name := c.kernel + " " + c.dtype + " " + c.layout
		out, trace := child(t, "product", driver, cublas.Env+"="+blas, "FAKE_CUBLAS_TRACE=1", kernelEnv+"="+c.kernel, dtypeEnv+"="+c.dtype,
			layoutEnv+"="+c.layout)
		rest := trace
		for _, want := range c.want {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%s: no %q in the rest of the trace\n%s", name, want, trace)
				break
			}
			rest = after
		}
		if !strings.Contains(out, c.out) || c.want != nil && strings.Contains(out, "error") && !strings.Contains(c.out, "offers") {
			t.Errorf("%s: printed %q, want %q", name, out, c.out)
		}
	}
}

func TestBlasBatches(t *testing.T) {
	driver, blas := fakeDriver(t), fakeBLAS(t, t.TempDir())
	for _, c := range []struct{ kernel, dtype, layout, trace, out string }{
		{"cublas", "bf16", "kn", "batch 4 of 0 m8 n3 k32 lda10+500 ldb48+144 ldc12+36 types 14 14 68 algo -1\n", "operand C: "},
		{"cublas", "fp32", "nk", "batch 4 of 1 m8 n3 k32 lda40+2000 ldb48+144 ldc12+36 types 0 0 68 algo -1\n", "operand C: "},
		{"cublas", "int8", "nk", "batch 4 of 1 m8 n3 k32 lda32+1600 ldb48+144 ldc12+36 types 3 10 72 algo -1\n", "operand C: "},
		{"cublas", "int8", "kn", "", "kernel cublas does not support int8: batched 8-bit weights need K contiguous: use layout nk"},
		{"cublaslt", "fp16", "kn", "lt batch 4: a+500 b+144 c+36\n", "operand C: "},
		{"cublaslt", "fp8", "nk", "lt batch 4: a+1600 b+144 c+36\n", "operand C: "},
		{"cublaslt:1", "bf16", "nk", "lt gemm algo 67", "operand C: "},
	} {
		name := c.kernel + " " + c.dtype + " " + c.layout
		out, trace := child(t, "product", driver, cublas.Env+"="+blas, "FAKE_CUBLAS_TRACE=1", kernelEnv+"="+c.kernel, dtypeEnv+"="+c.dtype,
			layoutEnv+"="+c.layout, productsEnv+"=4")
		if !strings.Contains(trace, c.trace) {
			t.Errorf("%s: no %q in the trace\n%s", name, c.trace, trace)
		}
		if !strings.Contains(out, c.out) || strings.Count(out, "error") != 1 {
			t.Errorf("%s: printed %q, want %q and no other error", name, out, c.out)
		}
	}
}

func TestBlasFailures(t *testing.T) {
	driver, blas := fakeDriver(t), fakeBLAS(t, t.TempDir())
	for _, c := range []struct{ kernel, fail, want string }{
		{"cublas", "cublasCreate_v2:1:1", "error: cuda:0: open cuBLAS: CUBLAS_STATUS_NOT_INITIALIZED (status 1)"},
		{"cublas", "cublasSetMathMode:1:7", "open cuBLAS: CUBLAS_STATUS_INVALID_VALUE"},
		{"cublas", "cublasSetWorkspace_v2:1:3", "execute on cuda:0: cublas bf16 m3 n8 k32"},
		{"cublas", "cublasGemmEx:1:13", "launch 0: cublas: CUBLAS_STATUS_EXECUTION_FAILED (status 13)"},
		{"cublas", "cublasGemmEx:3:15", "kernel cublas does not support bf16: cublas: CUBLAS_STATUS_NOT_SUPPORTED (status 15)"},
		{"cublaslt", "cublasLtCreate:1:1", "open cuBLASLt: CUBLAS_STATUS_NOT_INITIALIZED"},
		{"cublaslt", "cublasLtMatmulDescCreate:1:3", "m3 n8 k32 bf16: ask cuBLASLt for an algorithm: CUBLAS_STATUS_ALLOC_FAILED"},
		{"cublaslt", "cublasLtMatrixLayoutCreate:3:14", "CUBLAS_STATUS_INTERNAL_ERROR"},
		{"cublaslt", "cublasLtMatmulPreferenceSetAttribute:2:14", "CUBLAS_STATUS_INTERNAL_ERROR"},
		{"cublaslt", "cublasLtMatmulAlgoGetHeuristic:1:15",
			"kernel cublaslt does not support bf16: cuBLASLt has no algorithm for it (CUBLAS_STATUS_NOT_SUPPORTED)"},
		{builtAlgorithm, "cublasLtMatmulAlgoInit:1:7",
			"does not support bf16: cuBLASLt does not take the algorithm for it (CUBLAS_STATUS_INVALID_VALUE)"},
		{builtAlgorithm, "cublasLtMatmulAlgoConfigSetAttribute:1:7",
			"cuBLASLt does not take the algorithm for it (CUBLAS_STATUS_INVALID_VALUE)"},
		{builtAlgorithm, "cublasLtMatmulAlgoCheck:1:3", "m3 n8 k32 bf16: set up an algorithm of cuBLASLt: CUBLAS_STATUS_ALLOC_FAILED"},
		{strings.Replace(builtAlgorithm, "tile23", "tile24", 1), "none:1:1",
			"cuBLASLt does not take the algorithm for it (CUBLAS_STATUS_NOT_SUPPORTED)"},
		{"cublaslt", "cublasLtMatmul:1:8", "cublaslt: CUBLAS_STATUS_ARCH_MISMATCH"},
		{"cublaslt", "cublasLtMatmul:1:55", "cublaslt: an unknown status (status 55)"},
	} {
		out, _ := child(t, "product", driver, cublas.Env+"="+blas, "FAKE_CUBLAS_FAIL="+c.fail, kernelEnv+"="+c.kernel, dtypeEnv+"=bf16",
			layoutEnv+"=kn")
		if !strings.Contains(out, c.want) {
			t.Errorf("%s: %q, want %q in it", c.fail, out, c.want)
		}
		if strings.Contains(out, "lost: true") {
			t.Errorf("%s: the device is lost", c.fail)
		}
	}
}

// cuBLASLt's refusals are permanent; transient failures are retried.
func TestBlasFailureIsOfTheMoment(t *testing.T) {
	driver, blas := fakeDriver(t), fakeBLAS(t, t.TempDir())
	for status, again := range map[int]bool{3: true, 14: true, 15: false, 7: false} {
		fail := fmt.Sprintf("FAKE_CUBLAS_FAIL=cublasLtMatmulAlgoGetHeuristic:1:%d", status)
		out, _ := child(t, "twice", driver, cublas.Env+"="+blas, fail, kernelEnv+"=cublaslt")
		if got := strings.Contains(out, "supports: <nil>"); got != again || strings.Count(out, "supports: ") != 2 {
			t.Errorf("%s: supported at last: %v:\n%s", fail, got, out)
		}
	}
}

func TestBlasMissing(t *testing.T) {
	driver := fakeDriver(t)
	sound := fakeBLAS(t, t.TempDir())
	lacking := fakeBLAS(t, t.TempDir(), "-DcublasSetWorkspace_v2=other", "-DcublasLtMatmul=other")
	withoutLt := fakeBLAS(t, t.TempDir())
	if err := os.Remove(filepath.Join(withoutLt, "libcublasLt.so.12")); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "libcublas.so.12")
	if err := os.WriteFile(text, []byte("no library"), 0o644); err != nil {
		t.Fatal(err)
	}
	venv := t.TempDir()
	site := filepath.Join(venv, "lib/python3.12/site-packages/nvidia/cublas/lib")
	if err := os.MkdirAll(site, 0o755); err != nil {
		t.Fatal(err)
	}
	fakeBLAS(t, site)
	elsewhere := []string{"PATH=", "HOME=", "CUDA_HOME=", "CUDA_PATH=", "CONDA_PREFIX="}
	for _, c := range []struct {
		name string
		env  []string
		want []string
	}{
		{"there", []string{cublas.Env + "=" + sound},
			[]string{"cublas: cuBLAS 12.4.5 (" + sound +
				"/libcublas.so.12), cublasGemmEx with its default choice, 32 MiB of workspace, split-K summed in fp32\n",
				"cublaslt: cuBLASLt 12.4.5 (" + sound + "/libcublasLt.so.12), cublasLtMatmul with the heuristic's first choice",
				"versions 12.4.5 12.4.5"}},
		{"in an environment", append(elsewhere, cublas.Env+"=", "VIRTUAL_ENV="+venv),
			[]string{"cublas: cuBLAS 12.4.5 (" + site + "/libcublas.so.12)"}},
		{"nowhere", append(elsewhere, cublas.Env+"=", "VIRTUAL_ENV="), []string{"cublas is missing: ", "the loader's paths",
			"cublaslt is missing: ", "or set " + cublas.Env + " to its path", "versions  \n"}},
		{"not where it should be", []string{cublas.Env + "=/nonexistent/libcublas.so.12"},
			[]string{"cublas is missing: libcublas is not there (looked at " + cublas.Env + "=/nonexistent/libcublas.so.12)"}},
		{"no library", []string{cublas.Env + "=" + text}, []string{"cublas is missing: " + text + ": file too short"}},
		{"lacking", []string{cublas.Env + "=" + lacking}, []string{"libcublas.so.12 has no cublasSetWorkspace_v2", "cublaslt is missing"}},
		{"without cuBLASLt", []string{cublas.Env + "=" + withoutLt},
			[]string{"cublas: cuBLAS 12.4.5", "cublaslt is missing: " + withoutLt + "/libcublasLt.so.12: cannot open"}},
		{"newer than the driver", []string{cublas.Env + "=" + sound, "FAKE_CUBLAS_VERSION=13.1.0"},
			[]string{"libcublas.so.12 is version 13.1.0, the driver is for CUDA 12.4"}},
	} {
		out, _ := child(t, "subjects", driver, c.env...)
		if c.name == "nowhere" && strings.Contains(out, "cublas: cuBLAS") {
			continue // this machine has a system cuBLAS
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: want %q in\n%s", c.name, want, out)
			}
		}
	}
}
