package cuda

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration/kept"
)

// Provider offers the NVIDIA GPUs of this machine as "cuda:0", "cuda:1" and so on,
// in the driver's order. A build without the tag cuda, a machine without a driver
// and a GPU that can't be used are each missing with a reason, never an error.
type Provider struct {
	// BLAS are files or folders of cuBLAS, in place of the one that is looked for.
	BLAS []string
	// Calibration has the constants that were measured on cards of this machine, by the program of version
	// Program; without them those that ship are in force.
	Calibration kept.Store
	Program     string
}

// Libraries implements [kernels.LibraryChooser].
func (Provider) Libraries() []string { return []string{"cublas"} }

// WithLibraries implements [kernels.LibraryChooser].
func (p Provider) WithLibraries(paths map[string][]string) kernels.Provider {
	p.BLAS = paths["cublas"]
	return p
}

// missing is the answer when there is not one GPU to offer.
func missing(reason string, broken bool) ([]kernels.Device, []kernels.Missing) {
	return nil, []kernels.Missing{{Name: "cuda", Reason: reason, Broken: broken}}
}
