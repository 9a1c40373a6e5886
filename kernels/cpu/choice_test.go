package cpu

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

func TestChoices(t *testing.T) { onEachISA(t, choices) }

func choices(t *testing.T, _ string) {
	dev := open(t, 2)
	tellers := kerneltest.Tellers(dev, 0)
	told := map[string]bool{}
	for _, g := range tellers {
		told[g.Name()] = true
		for _, d := range kernels.DTypes() {
			for _, p := range []kernels.Task{
				{Subject: kernels.Product("", 32, 8192), M: 1},
				{Subject: kernels.Linear("", 257, 65), M: 5, LDB: 70},
				{Subject: kernels.Product("", 64, 64), M: 17, Threads: 1},
				{Subject: kernels.Product("", 64, 65), M: 100, PackInside: true},
				{Subject: kernels.Product("", 64, 64), M: 4, Threads: 3}, // more threads than the device has
			} {
				p.DType = d
				if err := kerneltest.CheckChoice(t.Context(), dev, g, p); err != nil {
					t.Error(err)
				}
			}
		}
	}
	for _, name := range []string{"auto", "gemv", "tiled", "naive"} {
		if !told[name] {
			t.Errorf("%s does not say what it would run", name)
		}
	}
	if told["openblas"] {
		t.Error("OpenBLAS has no interface that tells, and says what it would run")
	}
}

func BenchmarkChoice(b *testing.B) {
	d, err := Open(2)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	for _, g := range kerneltest.Tellers(d, 0) {
		b.Run(g.Name(), func(b *testing.B) {
			p := kernels.Task{Subject: kernels.Product(kernels.FP32, 4096, 4096), M: 1}
			for b.Loop() {
				if _, err := g.Choice(p); g.Supports(p) == nil && err != nil {
					b.Fatal(err)
				}
				if p.M++; p.M > 4096 || g.Supports(p) != nil {
					p.M = 1
				}
			}
		})
	}
}
