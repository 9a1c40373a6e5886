package cuda

import "github.com/gemmaudit/gemmaudit/kernels"

// Provider offers the NVIDIA GPUs of this machine as "cuda:0", "cuda:1" and so on, in the driver's order.
// Without the build tag cuda, a driver or a usable GPU, it reports each as missing with a reason and returns
// no error.
type Provider struct {
	// BLAS are files or folders of cuBLAS to use instead of the default search.
	BLAS []string
}

// Libraries implements [kernels.LibraryChooser].
func (Provider) Libraries() []string { return []string{"cublas"} }

// WithLibraries implements [kernels.LibraryChooser].
func (p Provider) WithLibraries(paths map[string][]string) kernels.Provider {
	p.BLAS = paths["cublas"]
	return p
}

func missing(reason string, broken bool) ([]kernels.Device, []kernels.Missing) {
	return nil, []kernels.Missing{{Name: "cuda", Reason: reason, Broken: broken}}
}
