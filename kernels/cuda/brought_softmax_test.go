//go:build cuda

package cuda

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() { scenarios["brought softmax"] = broughtSoftmaxScenario }

func broughtSoftmaxScenario() {
	devices, _ := Provider{}.Open()
	d := devices[0]
	loader := d.(kernels.SoftmaxLoader)
	k, err := loader.LoadSoftmax(os.Getenv(kernelEnv))
	report(err)
	if err != nil {
		return
	}
	if k == nil {
		fmt.Println("no softmax")
		report(d.Close())
		return
	}
	again, err := loader.LoadSoftmax(os.Getenv(kernelEnv))
	report(err)
	fmt.Println("once:", again == k, "listed:", slices.Contains(d.Kernels(kernels.Softmax), k), "version:", d.Spec().Versions["mine"][:7])
	for _, p := range []kernels.Task{
		{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP32, Dims: kernels.Dims{Columns: 33}}, M: 7, Scale: 0.5},
		{Subject: kernels.Subject{Operation: kernels.LogSoftmax, DType: kernels.FP32, Dims: kernels.Dims{Columns: 20, Queries: 20}}, M: 40},
	} {
		_, err := kernels.SoftmaxGate(context.Background(), d, k, p, 1)
		report(err)
	}
	fmt.Println(k.Supports(kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP16,
		Dims: kernels.Dims{Columns: 1}}, M: 1}))
	report(d.Close())
}

func fakeSoftmax(t *testing.T, options ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "mine.so")
	args := append([]string{"-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-I../plugin/include", "-o", out,
		"testdata/fake_softmax.c", "-lm"}, options...)
	if text, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

func TestBroughtSoftmaxPassesGate(t *testing.T) {
	driver := fakeDriver(t)
	out, _ := child(t, "brought softmax", driver, kernelEnv+"="+fakeSoftmax(t))
	if want := "once: true listed: true version: sha256:\nkernel mine does not support fp16: it computes only fp32\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
	for option, want := range map[string]string{
		"-DWRONG": "error: check: cuda:0/mine: ",
		"-DFAILS": "launch 0: it does not want to",
	} {
		if out, _ := child(t, "brought softmax", driver, kernelEnv+"="+fakeSoftmax(t, option)); !strings.Contains(out, want) {
			t.Errorf("%s: %q, want %q in it", option, out, want)
		}
	}
	if out, _ := child(t, "brought softmax", driver, kernelEnv+"="+fakeKernel(t)); out != "no softmax\n" {
		t.Errorf("a library with a product: %q", out)
	}
}
