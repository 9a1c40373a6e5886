package cpu

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func compile(t *testing.T, name, source string, flags ...string) string {
	t.Helper()
	folder := t.TempDir()
	c, so := filepath.Join(folder, name+".c"), filepath.Join(folder, name+".so")
	if err := os.WriteFile(c, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-O2", "-fPIC", "-shared", "-I../plugin/include", "-o", so, c}, flags...)
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	return so
}

func example(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../examples/kernel-cpu/kernel.c")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func edited(t *testing.T, old, new string) string {
	t.Helper()
	text := example(t)
	if strings.Count(text, old) != 1 {
		t.Fatalf("the example has %q %d times, expected once", old, strings.Count(text, old))
	}
	return strings.Replace(text, old, new, 1)
}

func load(t *testing.T, d *Device, path string) kernels.Kernel {
	t.Helper()
	g, err := d.LoadKernel(path)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestExamplePassesGate(t *testing.T) {
	d := openDevice(t)
	path := compile(t, "mine", example(t), "-O3", "-march=native")
	g := load(t, d, path)
	if again := load(t, d, path); again != g {
		t.Error("the same file became a second kernel")
	}
	if found, err := kernels.Find(d, kernels.GEMM, "example"); err != nil || found != g {
		t.Errorf("FindGemm = %v, %v", found, err)
	}
	if v := d.Spec().Versions["example"]; !strings.HasPrefix(v, "sha256:") || len(v) != len("sha256:")+64 {
		t.Errorf("version is %q", v)
	}
	s, err := kernels.CheckKernel(t.Context(), d, g, kernels.FP32, 1)
	if err != nil || s.Passed < 50 {
		t.Errorf("gate: %+v, %v", s, err)
	}
	for _, skipped := range s.Skipped {
		if !strings.Contains(skipped.Error(), "packs on one thread") && !strings.Contains(skipped.Error(), "one product a launch") {
			t.Error(skipped)
		}
	}
	s, err = kernels.CheckKernel(t.Context(), d, g, kernels.BF16, 1)
	if err != nil || s.Passed > 0 || len(s.Skipped) == 0 || !strings.Contains(s.Skipped[0].Error(), "only fp32") {
		t.Errorf("gate of bf16: %+v, %v", s, err)
	}
	fewer, err := d.WithThreads(1)
	if err != nil {
		t.Fatal(err)
	}
	defer fewer.Close()
	if _, err := kernels.Find(fewer, kernels.GEMM, "example"); err != nil {
		t.Errorf("on fewer threads: %v", err)
	}
}

// whole replaces run_team by run on one thread, which can also pack inside a launch.
const whole = `static int run(const gemmaudit_launch *l, char *error) {
  if (l->problem.m == 3) {
    snprintf(error, GEMMAUDIT_ERROR_BYTES, "it does not like m3\n");
    return 7;
  }
  gemmaudit_team one = {0, 1, NULL, NULL};
  run_team(l, &one);
  return 0;
}

const gemmaudit_kernel *gemmaudit_kernel_get`

func TestBroughtKernelPacksInside(t *testing.T) {
	d := openDevice(t)
	source := strings.Replace(edited(t, "const gemmaudit_kernel *gemmaudit_kernel_get", whole), ".run_team = run_team", ".run = run", 1)
	g := load(t, d, compile(t, "whole", strings.Replace(source, "l->problem.m == 3", "0", 1)))
	if s, err := kernels.CheckKernel(t.Context(), d, g, kernels.FP32, 1); err != nil || s.Passed == 0 {
		t.Fatalf("gate: %+v, %v", s, err)
	}
	p := kernels.Task{Subject: kernels.Product(kernels.FP32, 40, 9), M: 5}
	var outputs [2][]float64
	for i, inside := range []bool{false, true} {
		p.PackInside = inside
		a, b := broughtOperands(t, d, p)
		w, err := g.Prepare(p, b)
		if err != nil {
			t.Fatal(err)
		}
		outputs[i] = outputOf(t, d, g, p, a, w)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if fmt.Sprint(outputs[0]) != fmt.Sprint(outputs[1]) {
		t.Error("packing inside the launch changes the product")
	}
	team := load(t, d, compile(t, "team", edited(t, `"example"`, `"team"`)))
	if err := team.Supports(p); err == nil || !strings.Contains(err.Error(), "packs on one thread") {
		t.Errorf("a team that packs inside: %v", err)
	}
}

func broughtOperands(t *testing.T, d *Device, p kernels.Task) (a, b kernels.Buffer) {
	t.Helper()
	for i, to := range []*kernels.Buffer{&a, &b} {
		n := [2]int{p.M * p.K, p.K * p.N}[i]
		buffer, err := d.Alloc(int64(4 * n))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { buffer.Close() })
		if err := buffer.Fill(kernels.Integers, kernels.FP32, int64(n), uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		*to = buffer
	}
	return a, b
}

// A library's error text must become the error of the block.
func TestBroughtKernelFails(t *testing.T) {
	d := openDevice(t)
	source := strings.Replace(edited(t, "const gemmaudit_kernel *gemmaudit_kernel_get", whole), ".run_team = run_team", ".run = run", 1)
	g := load(t, d, compile(t, "fails", source))
	p := kernels.Task{Subject: kernels.Product(kernels.FP32, 40, 9), M: 3}
	a, b := broughtOperands(t, d, p)
	w, err := g.Prepare(p, b)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c, err := d.Alloc(int64(4 * p.M * p.N))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := g.Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Execute(t.Context(), []kernels.Launch{l}, 1); err == nil ||
		!strings.HasSuffix(err.Error(), "launch 0: it does not like m3") {
		t.Errorf("a launch that fails: %v", err)
	}
	prepare := strings.Replace(edited(t, "(void)stream, (void)error;",
		"(void)stream; if (1) { snprintf(error, 9, \"no\\033way\"); return 2; }"), `"example"`, `"refuses"`, 1)
	g = load(t, d, compile(t, "refuses", prepare))
	if _, err := g.Prepare(p, b); err == nil || !strings.HasSuffix(err.Error(), "pack weights: no way") {
		t.Errorf("weights that can't be packed: %v", err)
	}
}

// Each library has one bug.
func TestGateCatchesWrongBroughtKernels(t *testing.T) {
	for name, change := range map[string][2]string{
		"last-step":   {"k < p->k; k++)\n    for (int i = 0", "k < p->k - 1; k++)\n    for (int i = 0"},
		"tail-rows":   {"p->m - i < ROWS ? p->m - i : ROWS", "ROWS"},
		"transposed":  {"p->b_transposed ? ", "1 ? "},
		"ldc":         {"(float *)l->c + i * p->ldc", "(float *)l->c + i * p->n"},
		"past-column": {"p->n - at * WIDTH < WIDTH ? p->n - at * WIDTH : WIDTH", "WIDTH"},
		"one-thread":  {"at = team->thread;", "at = team->thread + 1;"},
	} {
		t.Run(name, func(t *testing.T) {
			d := openDevice(t)
			g := load(t, d, compile(t, name, edited(t, change[0], change[1])))
			var wrong *kernels.CheckError
			if _, err := kernels.CheckKernel(t.Context(), d, g, kernels.FP32, 1); !errors.As(err, &wrong) {
				t.Errorf("the gate says %v", err)
			}
		})
	}
}

func TestLoadKernelRefuses(t *testing.T) {
	d := openDevice(t)
	for name, c := range map[string]struct{ old, new, want string }{
		"abi":         {"GEMMAUDIT_KERNEL_ABI,", "9,", "version 9 of the interface, expected 1"},
		"clash":       {`"example"`, `"tiled"`, "is named tiled, as another of cpu is"},
		"attention":   {`"example"`, `"attention"`, "is named attention"},
		"hostile":     {`"example"`, `"../\033[31m"`, `names its kernel "../\x1b[31m"`},
		"candidate":   {`"example"`, `"tiled:1"`, `names its kernel "tiled:1"`},
		"version":     {`"example"`, `"openblas@1"`, `names its kernel "openblas@1"`},
		"selection":   {`"example"`, `"ladder"`, `names its kernel "ladder", which selects gemmaudit's own kernels`},
		"nameless":    {`"example"`, `0`, `names its kernel ""`},
		"description": {`"example of`, `"two\nlines`, "is not one line"},
		"pack":        {".prepare = prepare,", "", "one of packed_bytes and prepare"},
		"nothing":     {".run_team = run_team,", "", "0 of run, run_team and enqueue"},
		"gpu":         {"GEMMAUDIT_CPU,", "GEMMAUDIT_CUDA,", "enqueue on a GPU"},
		"nowhere":     {"GEMMAUDIT_CPU,", "0,", "its device is 0"},
		"null":        {"return &kernel;", "(void)kernel; return NULL;", "gemmaudit_kernel_get returned NULL"},
		"no-entry":    {"*gemmaudit_kernel_get(void)", "*other(void)", "exports no gemmaudit_kernel_get"},
		"unresolved":  {"return &kernel;", "extern void absent(void); absent(); return &kernel;", "absent"},
	} {
		t.Run(name, func(t *testing.T) {
			path := compile(t, name, edited(t, c.old, c.new))
			before := len(d.Kernels(kernels.GEMM))
			if _, err := d.LoadKernel(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("LoadKernel = %v, want %q", err, c.want)
			}
			if len(d.Kernels(kernels.GEMM)) != before {
				t.Error("it was listed")
			}
		})
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "none.so"), t.TempDir(), "brought.go"} {
		if _, err := d.LoadKernel(path); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", path)) {
			t.Errorf("LoadKernel(%q) = %v", path, err)
		}
	}
}
