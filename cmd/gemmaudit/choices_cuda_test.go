//go:build cuda

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The fake GPU and libraries do not compute: the program must report the launches without timing any.
func TestChoicesOnFakeGPU(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler here to build a fake driver with")
	}
	dir, sources := t.TempDir(), filepath.Join("..", "..", "kernels", "cuda")
	for _, lib := range [][]string{
		{"libcuda.so.1", "fake_driver.c", "-I" + filepath.Join(sources, "driver", "include")},
		{"libcublasLt.so.12", "fake_cublas.c", "-DLT"}, {"libcublas.so.12", "fake_cublas.c"},
	} {
		args := slices.Concat([]string{"-shared", "-fPIC", "-O1", "-o", filepath.Join(dir, lib[0])}, lib[2:],
			[]string{filepath.Join(sources, "testdata", lib[1])})
		if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "gemmaudit") // under this name the binary acts as the program
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	choices := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(program,
			append([]string{"choices", "-q", "--device", "cuda:0", "--dtype", "bf16", "--batch", "1:300"}, args...)...)
		cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir, "GEMMAUDIT_CUBLAS="+dir, "TERM=dumb")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run := filepath.Join(dir, "run.db")
	told := choices("--shape", "n14336k4096", "--kernel", "cublas,cublaslt,auto", "--algos", "1", "-o", "csv", "--layout", "kn,nk", "--out",
		run)
	for _, line := range []string{
		"cuda:0,cublas,bf16,14336,4096,nk,cuda:0/cublas/bf16 n14336 k4096 nk,1,300,nvjet_128x256 + " +
			"cublasLt::splitK,256x128,2,,2x1x1,transposed,132,",
		"cuda:0,cublaslt,bf16,14336,4096,kn,cuda:0/cublaslt/bf16 n14336 k4096,1,300,algo 66 tile 128x256x64 stages 4 cluster 2x1 splitk " +
			"1,256x128x64,1,4,2x1x1,transposed,",
		"cuda:0,cublaslt:1,bf16,14336,4096,nk,cuda:0/cublaslt:1/bf16 n14336 k4096 nk,1,300,algo 67 ",
		"cuda:0,auto,bf16,14336,4096,nk,cuda:0/auto/bf16 n14336 k4096 nk,1,8,hopper narrow 8x128 stages 13,8x128x64,1,13,,transposed,132,",
	} {
		if !strings.Contains(told, "\n"+line) {
			t.Errorf("no line %s in\n%s", line, told)
		}
	}
	same := choices("--shape", "n14336k4096", "--kernel", "cublas", "--diff", "--layout", "kn,nk")
	if !strings.HasPrefix(same, "A kn, B nk: the same would run at all 300 batches of 1 series\n") {
		t.Error(same)
	}
}
