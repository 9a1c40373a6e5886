package cuda

import "github.com/gemmaudit/gemmaudit/kernels"

// Provider offers the NVIDIA GPUs of this machine as "cuda:0", "cuda:1" and so on,
// in the driver's order. A build without the tag cuda, a machine without a driver
// and a GPU that can't be used are each missing with a reason, never an error.
type Provider struct {
	// BLAS are files or folders of cuBLAS, in place of the one that is looked for.
	BLAS []string
}

// Libraries implements [kernels.LibraryChooser].
func (Provider) Libraries() []string { return []string{"cublas"} }

// WithLibraries implements [kernels.LibraryChooser].
func (Provider) WithLibraries(paths map[string][]string) kernels.Provider {
	return Provider{BLAS: paths["cublas"]}
}

// missing is the answer when there is not one GPU to offer.
func missing(reason string, broken bool) ([]kernels.Device, []kernels.Missing) {
	return nil, []kernels.Missing{{Name: "cuda", Reason: reason, Broken: broken}}
}
