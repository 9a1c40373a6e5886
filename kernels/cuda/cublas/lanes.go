//go:build cuda

package cublas

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
)

// Lanes returns kernels that compute as k does, one for each lane of [driver.Device.Fork]. Each has its own handle and
// workspace, as Transformer Engine has for its streams. It is nil for kernels of other packages and for fast accumulation,
// which is fp8's alone.
func Lanes(k kernels.Kernel) []kernels.Kernel {
	lanes := []kernels.Kernel{k}
	switch k := k.(type) {
	case *cublas:
		for i := 1; i < driver.Lanes; i++ {
			of := &cublas{dev: k.dev, kernel: k.kernel, lib: k.lib, about: k.about, sums: k.sums, loading: k.loading, lane: i}
			lanes = append(lanes, of)
		}
	case *cublasLtChoice:
		if k.fp8 == sumsFast {
			return nil
		}
		for i := 1; i < driver.Lanes; i++ {
			lt := &cublasLt{dev: k.dev, kernel: k.kernel, lib: k.lib, about: k.about, sums: k.sums, fp8: k.fp8, lane: i}
			lanes = append(lanes, &cublasLtChoice{cublasLt: lt, n: k.n, exact: k.exact})
		}
	default:
		return nil
	}
	return lanes
}
