//go:build cuda

package cuda_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

// openGPU is the first GPU with everything that runs on it, or the test is skipped.
func openGPU(tb testing.TB) kernels.Device {
	devices, missing := cuda.Provider{}.Open()
	if len(devices) == 0 {
		tb.Skipf("no GPU: %v", missing)
	}
	tb.Cleanup(func() {
		for _, d := range devices {
			d.Close()
		}
	})
	return devices[0]
}

// TestToldIsWhatRuns: on a GPU, with real libraries, what kernels say that they would run is
// what runs. They are asked first, while the libraries have loaded nothing.
func TestToldIsWhatRuns(t *testing.T) {
	d := openGPU(t)
	ms := []int{1, 2, 7, 16, 17, 64, 100, 128, 192, 333, 512, 704, 1024, 1184, 1664, 2048, 4000}
	if testing.Short() {
		ms = []int{1, 17, 704}
	}
	for _, g := range kerneltest.Tellers(d, 2) {
		for _, dtype := range kernels.DTypes() {
			checked := 0
			for _, m := range ms {
				for _, layout := range []kernels.Layout{kernels.Transposed, kernels.RowMajor} {
					p := kernels.Problem{Shape: kernels.Shape{M: m, N: 4096, K: 4096}, DType: dtype, BLayout: layout}
					if g.Supports(p) == nil {
						checked++
					}
					if err := kerneltest.CheckChoice(t.Context(), d, g, p); err != nil {
						t.Error(err)
					}
				}
			}
			t.Logf("%s %s: %d products", g.Name(), dtype, checked)
		}
	}
}

// BenchmarkChoices is what it takes to be told what a product would run, on average over M from
// 1 to 32768: at most 50 us.
func BenchmarkChoices(b *testing.B) {
	d := openGPU(b)
	for _, g := range kerneltest.Tellers(d, 2) {
		if !slices.Contains([]string{"cublas", "cublaslt", "cublaslt:1", "cublaslt:2", "auto"}, g.Name()) {
			continue
		}
		for _, dtype := range []kernels.DType{kernels.BF16, kernels.FP8} {
			if g.Supports(kernels.Problem{Shape: kernels.Shape{M: 16, N: 14336, K: 4096}, DType: dtype, BLayout: kernels.Transposed}) != nil {
				continue
			}
			b.Run(g.Name()+"/"+string(dtype), func(b *testing.B) {
				told := map[string]bool{}
				cases := 0
				for ; b.Loop(); cases++ {
					p := kernels.Problem{Shape: kernels.Shape{M: 1 + cases*37%32768, N: 14336, K: 4096}, DType: dtype, BLayout: kernels.Transposed}
					c, err := g.Choice(p)
					var no *kernels.Unsupported
					if err != nil && !errors.As(err, &no) {
						b.Fatal(err)
					}
					told[c.Label] = true
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(cases), "us/case")
				b.ReportMetric(float64(len(told)), "kernels")
			})
		}
	}
}
