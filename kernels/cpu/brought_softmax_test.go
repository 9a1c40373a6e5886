package cpu

import (
	"errors"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// broughtSource is a softmax in C in double precision, without mask and scale.
const broughtSource = `
#include <math.h>
#include <stdio.h>
#include "gemmaudit_kernel.h"

static int supports(const gemmaudit_softmax_problem *p, char *error) {
  if (p->dtype != GEMMAUDIT_FP32 || p->queries != 0 || p->scale != 1) {
    snprintf(error, GEMMAUDIT_ERROR_BYTES, "plain fp32 alone");
    return 1;
  }
  return 0;
}

static int run(const gemmaudit_softmax_launch *l, char *error) {
  const gemmaudit_softmax_problem *p = &l->problem;
  for (int64_t r = 0; r < p->rows; r++) {
    const float *x = (const float *)l->in + r * p->columns;
    float *y = (float *)l->out + r * p->columns;
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < p->columns; i++) top = x[i] > top ? x[i] : top;
    for (int64_t i = 0; i < p->columns; i++) sum += exp(x[i] - top);
    for (int64_t i = 0; i < p->columns; i++) y[i] = p->log ? x[i] - top - log(sum) : exp(x[i] - top) / sum;
  }
  return 0;
}

static const gemmaudit_softmax description = {
  GEMMAUDIT_SOFTMAX_ABI, GEMMAUDIT_CPU, "plain", "softmax in double precision", supports, run, 0,
};
const gemmaudit_softmax *gemmaudit_softmax_get(void) { return &description; }
`

func broughtEdited(t *testing.T, old, new string) string {
	t.Helper()
	if strings.Count(broughtSource, old) != 1 {
		t.Fatalf("the source has %q %d times, expected once", old, strings.Count(broughtSource, old))
	}
	return strings.Replace(broughtSource, old, new, 1)
}

func TestBroughtSoftmax(t *testing.T) {
	d := openDevice(t)
	path := compile(t, "soft", broughtSource, "-lm")
	k, err := d.LoadSoftmax(path)
	if err != nil || k == nil {
		t.Fatalf("%v, %v", k, err)
	}
	if again, err := d.LoadSoftmax(path); err != nil || again != k {
		t.Errorf("the same file became a second kernel: %v", err)
	}
	if found, err := kernels.Find(d, kernels.LogSoftmax, "plain"); err != nil || found.Describe() != "softmax in double precision" {
		t.Errorf("%v, %v", found, err)
	}
	if v := d.Spec().Versions["plain"]; !strings.HasPrefix(v, "sha256:") {
		t.Errorf("version is %q", v)
	}
	s, err := kernels.CheckSoftmax(t.Context(), d, k, kernels.FP32, 1)
	if err != nil || s.Passed == 0 || len(s.Skipped) == 0 {
		t.Errorf("%d passed, %d skipped: %v", s.Passed, len(s.Skipped), err)
	}
	fewer, err := d.WithThreads(1)
	if err != nil {
		t.Fatal(err)
	}
	defer fewer.Close()
	if _, err := kernels.Find(fewer, kernels.Softmax, "plain"); err != nil {
		t.Errorf("on fewer threads: %v", err)
	}

	wrong, err := d.LoadSoftmax(compile(t, "wrong", strings.Replace(broughtEdited(t, `"plain", "softmax`, `"wrong", "softmax`),
		"exp(x[i] - top) / sum", "exp(x[i] - top) / (sum + 1)", 1), "-lm"))
	if err != nil {
		t.Fatal(err)
	}
	var failed *kernels.ElementError
	if _, err := kernels.CheckSoftmax(t.Context(), d, wrong, kernels.FP32, 1); !errors.As(err, &failed) {
		t.Errorf("a wrong sum: %v", err)
	}
	fails, err := d.LoadSoftmax(compile(t, "fails", strings.Replace(broughtEdited(t, `"plain", "softmax`, `"fails", "softmax`),
		"  return 0;\n}\n\nstatic const", "  snprintf(error, 64, \"out of luck\");\n  return 3;\n}\n\nstatic const", 1), "-lm"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kernels.SoftmaxGate(t.Context(), d, fails,
		kernels.Task{Subject: kernels.Subject{Operation: kernels.Softmax, DType: kernels.FP32, Dims: kernels.Dims{Columns: 2}}, M: 1},
		1); err == nil || !strings.Contains(err.Error(), "out of luck") {
		t.Errorf("a call that fails: %v", err)
	}
}

func TestBroughtSoftmaxRefused(t *testing.T) {
	d := openDevice(t)
	for _, c := range []struct{ old, new, want string }{
		{"GEMMAUDIT_SOFTMAX_ABI, GEMM", "7, GEMM", "version 7 of the interface of softmax, expected 1"},
		{`"plain"`, `"block"`, "named block, as another of cpu is"},
		{`"plain"`, `"Plain!"`, "names its kernel"},
		{"GEMMAUDIT_CPU", "9", "its device is 9"},
		{"GEMMAUDIT_CPU", "GEMMAUDIT_CUDA", "expected run on the CPU, enqueue on a GPU"},
		{"supports, run, 0,", "supports, 0, 0,", "both or none of run and enqueue"},
		{"return &description;", "return 0;", "gemmaudit_softmax_get returned NULL"},
	} {
		if _, err := d.LoadSoftmax(compile(t, "soft", broughtEdited(t, c.old, c.new), "-lm")); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", c.new, err, c.want)
		}
	}
	if k, err := d.LoadSoftmax(compile(t, "mine", example(t))); k != nil || err != nil {
		t.Errorf("a product: %v, %v", k, err)
	}
	if _, err := d.LoadSoftmax("nonesuch.so"); err == nil {
		t.Error("a file that is not there was loaded")
	}
}
