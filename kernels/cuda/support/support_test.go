package support

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// fillProgram is the device's generator as a host program: it writes elements first to first+n of a buffer to
// standard output.
const fillProgram = `
#include "fill.cuh"
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int dtype = atoi(argv[1]), distribution = atoi(argv[2]), size = atoi(argv[3]);
    uint64_t seed = strtoull(argv[4], NULL, 10), first = strtoull(argv[5], NULL, 10), n = strtoull(argv[6], NULL, 10);
    for (uint64_t i = first; i < first + n; i++) {
        uint32_t v = fillElement((uint32_t)i, fillKeys(seed, (uint32_t)(i >> 32)), dtype, distribution);
        fwrite(&v, 1, size, stdout);
    }
    return argc != 7;
}
`

func buildFill(t *testing.T) string {
	t.Helper()
	cc := "cc"
	if out, err := exec.Command("go", "env", "CC").Output(); err == nil {
		cc = string(bytes.TrimSpace(out))
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skipf("no C compiler: %v", err)
	}
	dir := t.TempDir()
	text, err := os.ReadFile("fill.cuh")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"fill.cuh": text, "fill.c": []byte(fillProgram)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "fill")
	if out, err := exec.Command(cc, "-std=c11", "-O1", "-w", "-o", program, filepath.Join(dir, "fill.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return program
}

func runFill(t *testing.T, program string, d kernels.DType, dist kernels.Distribution, seed, first uint64, n int) []byte {
	t.Helper()
	out, err := exec.Command(program, fmt.Sprint(fillDTypes[d]), fmt.Sprint(fillDistributions[dist]), fmt.Sprint(d.Size()),
		fmt.Sprint(seed), fmt.Sprint(first), fmt.Sprint(n)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The device's generator, compiled for the host, gives the bits of the CPU's buffers.
func TestFillIsTheCPUs(t *testing.T) {
	program := buildFill(t)
	registry := kernels.NewRegistry(cpu.Provider{})
	defer registry.Close()
	devices := registry.Devices()
	if len(devices) != 1 {
		t.Fatalf("no CPU: %v", registry.Missing())
	}
	const n = 70001
	for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
		for _, dist := range []kernels.Distribution{kernels.Normal, kernels.Integers} {
			for _, seed := range []uint64{0, 1, 1 << 63} {
				b, err := devices[0].Alloc(n * int64(d.Size()))
				if err != nil {
					t.Fatal(err)
				}
				want := make([]byte, n*d.Size())
				if err := b.Fill(dist, d, n, seed); err != nil {
					t.Fatal(err)
				}
				if err := b.Download(0, want); err != nil {
					t.Fatal(err)
				}
				if got := runFill(t, program, d, dist, seed, 0, n); !bytes.Equal(got, want) {
					t.Errorf("%s, %s, seed %d: the device's bits are not the CPU's", d, dist, seed)
				}
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// Types that the CPU lacks are the fp32 values as rounded by Encode, also past the first 2^32 elements. The
// values are N(0,1).
func TestFillEncodes(t *testing.T) {
	program := buildFill(t)
	const n = 50000
	for _, first := range []uint64{0, 1<<32 - n/2} {
		for _, dist := range []kernels.Distribution{kernels.Normal, kernels.Integers} {
			exact := make([]float64, n)
			if err := kernels.Decode(kernels.FP32, runFill(t, program, kernels.FP32, dist, 7, first, n), exact); err != nil {
				t.Fatal(err)
			}
			for _, d := range []kernels.DType{kernels.TF32, kernels.FP16, kernels.BF16, kernels.FP8} {
				want := make([]byte, n*d.Size())
				if err := kernels.Encode(d, exact, want); err != nil {
					t.Fatal(err)
				}
				got := runFill(t, program, d, dist, 7, first, n)
				if at := bytes.Compare(got, want); at != 0 {
					for i := range want {
						if got[i] != want[i] {
							t.Errorf("%s, %s from %d: element %d of %g differs", d, dist, first, i/d.Size(), exact[i/d.Size()])
							break
						}
					}
				}
			}
			if dist != kernels.Normal {
				continue
			}
			var sum, squares float64
			for _, x := range exact {
				sum += x
				squares += x * x
			}
			if mean, variance := sum/n, squares/n; math.Abs(mean) > 0.02 || math.Abs(variance-1) > 0.02 {
				t.Errorf("from %d: mean %g, variance %g", first, mean, variance)
			}
		}
	}
}

func TestSupportLaunches(t *testing.T) {
	for _, a := range cudatest.Archs {
		var calls []planning.Call
		for _, d := range kernels.DTypes() {
			for _, dist := range []kernels.Distribution{kernels.Normal, kernels.Integers, kernels.Zeros} {
				for _, n := range []int64{1, 1000, 1 << 33} {
					c, err := FillCall(a, 1<<32, n, d, dist, 1)
					if err != nil {
						t.Fatal(err)
					}
					calls = append(calls, c)
				}
			}
			for _, layout := range []kernels.Layout{kernels.RowMajor, kernels.Transposed} {
				for _, s := range []kernels.Shape{{M: 1, N: 1, K: 1}, {M: 1, N: 14336, K: 4096}, {M: 1, N: 300000, K: 70000}} {
					p, err := kernels.Task{Subject: kernels.Product(d, s.N, s.K).In(layout), M: s.M}.Normalized()
					if err != nil {
						t.Fatal(err)
					}
					calls = append(calls, PackCall(a, p, 1<<32, 1<<33))
				}
			}
		}
		for _, rows := range []int64{1, 7, 32768, 1 << 30} {
			for _, columns := range []int64{1, 100, 8192, 1 << 22} {
				calls = append(calls, RealignCall(a, 1<<32+1, 1<<33, rows, columns, columns+3, (columns+15)/16*16))
			}
		}
		calls = append(calls, StampCall(a, 1<<32, 256), BlockingCall(1<<32, 1, 1e9, 1<<33),
			ReadCall(a, 1<<32, 1<<30, 1<<33), CopyCall(a, 1<<32, 1<<33, 1<<30))
		if c, ok := ReadBulkCall(a, 1<<32, 1<<30, 1<<33); ok {
			calls = append(calls, c)
		} else if a.CC >= 90 && a.SharedMax > 200<<10 {
			t.Errorf("no bulk reads on %d", a.CC)
		}
		for _, c := range calls {
			if err := cudatest.CheckCall(a, c); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := FillCall(cudatest.Archs[0], 0, 1, kernels.INT32, kernels.Normal, 1); err == nil {
		t.Error("int32 was filled")
	}
	if _, err := FillCall(cudatest.Archs[0], 0, 1, kernels.FP32, "uniform", 1); err == nil {
		t.Error("an unknown distribution was filled")
	}
}
