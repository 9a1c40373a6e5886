package cpu

import (
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// A row's bits may depend on M only in AVX-512 tiles of few rows, and on threads only in gemv.
func TestRowBits(t *testing.T) {
	onEachISA(t, func(t *testing.T, isa string) {
		d := open(t, 2) // the two split K if there are three panels
		for _, g := range d.Kernels(kernels.GEMM) {
			switch g.(type) {
			case *blocked, *amx, naive:
			default:
				continue // auto runs the others; libraries vary
			}
			if (isa == "amx") != (g.Name() == "amx") || g.Name() == "naive" && isa != "portable" {
				continue // same code as another case
			}
			for _, dt := range []kernels.DType{kernels.FP32, kernels.BF16, kernels.INT8} {
				// Tiles of fewer than 7 rows keep several sums; gemv splits K among threads.
				var byM, byThreads []int
				if dt != kernels.INT8 {
					if d.features.AVX512 && g.Name() != "naive" && g.Name() != "amx" {
						byM = []int{1, 2, 3, 4}
					}
					if g.Name() == "gemv" {
						byThreads = []int{1}
					}
				}
				found, err := kernels.RowBitsOf(t.Context(), d, g, dt, 1)
				if err != nil {
					t.Fatal(err)
				}
				if g.Name() == "amx" && dt == kernels.FP32 {
					continue // refused
				}
				if len(found.Ms) < 8 || !slices.Equal(found.ByM, byM) || !slices.Equal(found.ByThreads, byThreads) {
					t.Errorf("%s/%s: %+v, want %v by M and %v by threads", g.Name(), dt, found, byM, byThreads)
				}
			}
		}
	})
}
