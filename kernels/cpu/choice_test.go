package cpu

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

// TestChoices: what kernels say that they would run is what runs.
func TestChoices(t *testing.T) { onEachISA(t, choices) }

func choices(t *testing.T, _ string) {
	dev := open(t, 2)
	tellers := kerneltest.Tellers(dev, 0)
	told := map[string]bool{}
	for _, g := range tellers {
		told[g.Name()] = true
		for _, d := range kernels.DTypes() {
			for _, p := range []kernels.Problem{
				{Shape: kernels.Shape{M: 1, N: 32, K: 8192}},
				{Shape: kernels.Shape{M: 5, N: 257, K: 65}, BLayout: kernels.Transposed, LDB: 70},
				{Shape: kernels.Shape{M: 17, N: 64, K: 64}, Threads: 1},
				{Shape: kernels.Shape{M: 100, N: 64, K: 65}, PackInside: true},
				{Shape: kernels.Shape{M: 4, N: 64, K: 64}, Threads: 3}, // which the device has not
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

// BenchmarkChoice is what it takes to be told what a product would run.
func BenchmarkChoice(b *testing.B) {
	d, err := Open(2)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	for _, g := range kerneltest.Tellers(d, 0) {
		b.Run(g.Name(), func(b *testing.B) {
			p := kernels.Problem{Shape: kernels.Shape{M: 1, N: 4096, K: 4096}, DType: kernels.FP32}
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
