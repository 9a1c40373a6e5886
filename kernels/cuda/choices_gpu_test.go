//go:build cuda

package cuda_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

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

// With real libraries, each kernel runs its predicted choice. Kernels are asked before the libraries load
// anything.
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
					p := kernels.Task{Subject: kernels.Product(dtype, 4096, 4096).In(layout), M: m}
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

func askAll(tellers []kernels.Kernel, dtype kernels.DType, count int) ([]kernels.Choice, error) {
	out := make([]kernels.Choice, count)
	var group errgroup.Group
	for i, t := range tellers {
		group.Go(func() error {
			for k := i; k < count; k += len(tellers) {
				p := kernels.Task{Subject: kernels.Linear(dtype, 14336, 4096), M: 1 + k*37%32768}
				var err error
				var no *kernels.Unsupported
				if out[k], err = t.Choice(p); err != nil && !errors.As(err, &no) {
					return fmt.Errorf("m%d: %w", p.M, err)
				}
			}
			return nil
		})
	}
	return out, group.Wait()
}

func tellersOf(tb testing.TB, k kernels.Kernel) []kernels.Kernel {
	tellers, err := kernels.Tellers(k, 8)
	if err != nil {
		tb.Fatal(err)
	}
	return tellers
}

func TestTellersAgree(t *testing.T) {
	d := openGPU(t)
	for _, g := range kerneltest.Tellers(d, 1) {
		p := kernels.Task{Subject: kernels.Linear(kernels.BF16, 14336, 4096), M: 16}
		if g.Supports(p) != nil {
			continue
		}
		together, err := askAll(tellersOf(t, g), kernels.BF16, 2000)
		if err != nil {
			t.Fatalf("%s: %v", g.Name(), err)
		}
		alone, err := askAll([]kernels.Kernel{g}, kernels.BF16, 2000)
		if err != nil {
			t.Fatalf("%s: %v", g.Name(), err)
		}
		for k := range alone {
			if alone[k] != together[k] {
				t.Errorf("%s m%d: %+v was told to one, %+v to one of several", g.Name(), 1+k*37%32768, alone[k], together[k])
			}
		}
	}
}

// BenchmarkChoices measures a query of the choice for one product, averaged over M from 1 to 32768, as a
// sweep asks. The limit is 50 us.
func BenchmarkChoices(b *testing.B) {
	d := openGPU(b)
	for _, g := range kerneltest.Tellers(d, 2) {
		if !slices.Contains([]string{"cublas", "cublaslt", "cublaslt:1", "cublaslt:2", "auto"}, g.Name()) {
			continue
		}
		for _, dtype := range []kernels.DType{kernels.BF16, kernels.FP8} {
			if g.Supports(kernels.Task{Subject: kernels.Linear(dtype, 14336, 4096), M: 16}) != nil {
				continue
			}
			for _, tellers := range [][]kernels.Kernel{{g}, tellersOf(b, g)} {
				b.Run(fmt.Sprintf("%s/%s/%d", g.Name(), dtype, len(tellers)), func(b *testing.B) {
					choices, err := askAll(tellers, dtype, b.N)
					if err != nil {
						b.Fatal(err)
					}
					told := map[string]bool{}
					for _, c := range choices {
						told[c.Label] = true
					}
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N), "us/case")
					b.ReportMetric(float64(len(told)), "kernels")
				})
			}
		}
	}
}
