//go:build cuda

package cuda

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() {
	scenarios["brought"] = broughtScenario
	scenarios["versions"] = versionsScenario
}

func broughtScenario() {
	devices, _ := Provider{}.Open()
	d := devices[0]
	loader := d.(kernels.KernelLoader)
	g, err := loader.LoadKernel(os.Getenv(kernelEnv))
	report(err)
	if err != nil {
		return
	}
	again, err := loader.LoadKernel(os.Getenv(kernelEnv))
	found, findErr := kernels.Find(d, kernels.GEMM, "mine")
	report(err, findErr)
	fmt.Println("once:", again == g && found == g, "version:", d.Spec().Versions["mine"][:7])
	s, err := kernels.CheckKernel(context.Background(), d, g, kernels.FP32, 1)
	report(err)
	fmt.Printf("%d of %d passed\n", s.Passed, len(kernels.CheckProblems(kernels.FP32))+len(kernels.SpecialProblems(kernels.FP32)))
	fmt.Println(g.Supports(kernels.Task{Subject: kernels.Product(kernels.FP16, 1, 1), M: 1}))
	report(bindOne(d, g, kernels.Task{Subject: kernels.Product(kernels.FP32, 5, 7), M: 3, PackInside: true}))
	report(d.Close())
}

func fakeKernel(t *testing.T, options ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "mine.so")
	args := append([]string{"-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-I../plugin/include", "-o", out,
		"testdata/fake_kernel.c"}, options...)
	if text, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

func TestBroughtKernelPassesGate(t *testing.T) {
	driver := fakeDriver(t)
	problems := len(kernels.CheckProblems(kernels.FP32)) + len(kernels.SpecialProblems(kernels.FP32))
	for _, options := range [][]string{nil, {"-DRAW"}} {
		out, _ := child(t, "brought", driver, kernelEnv+"="+fakeKernel(t, options...))
		want := fmt.Sprintf("once: true version: sha256:\n%d of %d passed\nkernel mine does not support fp16: it computes only fp32\n",
			problems, problems)
		if out != want {
			t.Errorf("%v: %q, want %q", options, out, want)
		}
	}
	if out, _ := child(t, "brought", driver,
		kernelEnv+"="+fakeKernel(t, "-DWRONG")); !strings.Contains(out, "error: check: cuda:0/mine/fp32/") {
		t.Errorf("a wrong kernel: %s", out)
	}
	if out, _ := child(t, "brought", driver,
		kernelEnv+"="+fakeKernel(t, "-DFAILS")); !strings.Contains(out, "launch 0: it does not want to") {
		t.Errorf("a kernel that fails: %s", out)
	}
	if out, _ := child(t, "brought", driver,
		kernelEnv+"=/nonexistent/mine.so"); !strings.Contains(out, `kernel "/nonexistent/mine.so": no such file`) {
		t.Errorf("no kernel: %s", out)
	}
}

// versionsScenario opens cuBLAS at several paths and checks a few products. TestBlasPassesGate checks them
// all.
func versionsScenario() {
	provider := Provider{}.WithLibraries(map[string][]string{"cublas": strings.Split(os.Getenv(kernelEnv), ":")})
	devices, _ := provider.Open()
	d := devices[0]
	for _, g := range d.Kernels(kernels.GEMM) {
		if strings.HasPrefix(g.Name(), "cublas") && kernels.GEMM.OnRequest(g.Name()) == "" {
			var failures []error
			for _, p := range kernels.CheckProblems(kernels.FP32)[:12] {
				failures = append(failures, kernels.CheckGemm(context.Background(), d, g, p, 1))
			}
			err := errors.Join(failures...)
			report(err)
			fmt.Println(g.Name(), d.Spec().Versions[g.Name()], err == nil)
		}
	}
	for _, m := range d.Missing() {
		if strings.HasPrefix(m.Name, "cublas") {
			fmt.Printf("%s is missing: %s\n", m.Name, m.Reason)
		}
	}
	report(d.Close())
}

// linkedBLAS builds fakeBLAS as vendors do: cuBLAS links cuBLASLt by name, in the same folder.
func linkedBLAS(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"-DLT", "-Wl,-soname,libcublasLt.so.12", "-o", filepath.Join(dir, "libcublasLt.so.12")},
		{"-Wl,-soname,libcublas.so.12", "-Wl,--no-as-needed", "-L" + dir, "-l:libcublasLt.so.12", "-Wl,-rpath,$ORIGIN", "-o",
			filepath.Join(dir, "libcublas.so.12")},
	} {
		args = append([]string{"-shared", "-fPIC", "-O2", filepath.Join("testdata", "fake_cublas.c")}, args...)
		if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return dir
}

func TestTwoVersionsOfBLAS(t *testing.T) {
	driver := fakeDriver(t)
	one, two := fakeBLAS(t, t.TempDir()), fakeBLAS(t, t.TempDir())
	linked, other := linkedBLAS(t), linkedBLAS(t)
	of := func(folder, library string) string {
		sum, err := kernels.FileSHA256(filepath.Join(folder, library+".so.12"))
		if err != nil {
			t.Fatal(err)
		}
		return "12.4.5 sha256 " + sum[:12]
	}
	for _, c := range []struct {
		paths []string
		want  []string
	}{
		{[]string{one}, []string{"cublas 12.4.5 true\ncublaslt 12.4.5 true\n"}},
		{[]string{one, two}, []string{"cublas@1 " + of(one, "libcublas") + " true\ncublaslt@1 " + of(one, "libcublasLt") + " true\n" +
			"cublas@2 " + of(two, "libcublas") + " true\ncublaslt@2 " + of(two, "libcublasLt") + " true\n"}},
		{[]string{linked}, []string{"cublas 12.4.5 true\ncublaslt 12.4.5 true\n"}},
		// The loader reuses a loaded cuBLASLt of that name.
		{[]string{linked, other}, []string{"cublas@1 " + of(linked, "libcublas") + " true\ncublaslt@1 " + of(linked, "libcublasLt") +
			" true\ncublaslt@2 " + of(linked, "libcublasLt") + " true\n",
			"cublas@2 is missing: it computes by " + linked + "/libcublasLt.so.12, which is loaded already"}},
		{[]string{one, one}, []string{"cublas is missing: " + one + " is a file that was given before"}},
		{[]string{one, "/nonexistent"}, []string{"cublas is missing: libcublas is not there"}},
	} {
		out, _ := child(t, "versions", driver, kernelEnv+"="+strings.Join(c.paths, ":"))
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: want %q in\n%s", c.paths, want, out)
			}
		}
	}
}
