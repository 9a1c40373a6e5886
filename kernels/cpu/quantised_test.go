package cpu

import (
	"context"
	"errors"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// TestGateQuantised puts every kernel that takes quantised weights through the standing table, once for
// each instruction set that this CPU has.
func TestGateQuantised(t *testing.T) {
	onEachISA(t, func(t *testing.T, isa string) {
		if isa == "amx" {
			t.Skip("quantised weights are not multiplied by tiles of AMX")
		}
		dev := open(t, 2)
		for _, name := range []string{"gemv", "tiled", "auto"} {
			g := dev.gemm(name).(kernels.QuantisedGemm)
			for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
				t.Run(name+"/"+string(d), func(t *testing.T) {
					ran := 0
					for i, q := range kernels.QuantisedCheckProblems(d) {
						if testing.Short() && i%4 > 0 || name == "auto" && i%5 > 0 {
							continue
						}
						_, err := kernels.CheckQuantised(context.Background(), dev, g, q, uint64(i))
						var unsupported *kernels.Unsupported
						if errors.As(err, &unsupported) && name == "gemv" && q.M > gemvRows {
							continue
						}
						if err != nil {
							t.Error(err)
						}
						ran++
					}
					if ran == 0 {
						t.Error("nothing ran")
					}
				})
			}
		}
	})
}
