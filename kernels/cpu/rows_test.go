package cpu

import (
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// TestRowBits: what a row's bits depend on is what docs/design.md says of each kernel of ours.
func TestRowBits(t *testing.T) {
	onEachISA(t, func(t *testing.T, isa string) {
		d := open(t, 2) // between whom K is divided where there are three panels
		for _, g := range d.Gemms() {
			switch g.(type) {
			case *blocked, *amx, naive:
			default:
				continue // auto is the others; libraries are measured, not known
			}
			if (isa == "amx") != (g.Name() == "amx") || g.Name() == "naive" && isa != "portable" {
				continue // the same code as on another
			}
			for _, dt := range []kernels.DType{kernels.FP32, kernels.BF16, kernels.INT8} {
				// Tiles of fewer than 7 rows keep several sums; K is divided among the threads of gemv.
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
