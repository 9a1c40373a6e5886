package kernels

import (
	"cmp"
	"strings"
)

// VersionedName returns the kernel name of one version of a library, used when several are measured:
// "openblas@0.3.21". [SplitVersion] parses it.
func VersionedName(kernel, version string) string { return kernel + "@" + version }

// SplitVersion parses a versioned name: "openblas@0.3.21" is "openblas" and "0.3.21". Other names are
// returned whole, without a version. Remove a candidate suffix, as in "cublaslt@12.4:2", first.
func SplitVersion(name string) (kernel, version string) {
	kernel, version, _ = strings.Cut(name, "@")
	return kernel, version
}

// VariantName returns the name of a variant of a library's kernel: "cublaslt-fast@12.4" for "cublaslt@12.4" and "fast".
func VariantName(kernel, variant string) string {
	name, version := SplitVersion(kernel)
	if name += "-" + variant; version != "" {
		return VersionedName(name, version)
	}
	return name
}

// IsVersionOf reports whether name is a version of a library's kernel.
func IsVersionOf(name, kernel string) bool {
	base, version := SplitVersion(name)
	return version != "" && base == kernel
}

// partOf maps libraries to the library that computes for them and ships them. Their kernels differ only in
// who chooses the algorithm.
var partOf = map[string]string{"cublaslt": "cublas"}

// waysOf maps other ways to call a library, for groups of products and before an epilogue, to the library.
var waysOf = map[string]string{
	"cublas-streams": "cublas", "cublas-grouped": "cublas", "cublaslt-streams": "cublaslt",
	"cublas-separate": "cublas", "cublaslt-separate": "cublaslt",
}

// PackageOf returns the library whose package contains a library: "cublas" for "cublaslt" and "cublas-grouped", usually the
// library itself.
func PackageOf(library string) string {
	library = cmp.Or(waysOf[library], library)
	return cmp.Or(partOf[library], library)
}

// ChooserOf returns the common name of all choices of one library version: "cublas@12.4" for
// "cublaslt@12.4:2".
func ChooserOf(kernel string) string {
	base, _ := SplitCandidate(kernel)
	library, version := SplitVersion(base)
	library = cmp.Or(partOf[library], library)
	if version == "" {
		return library
	}
	return VersionedName(library, version)
}
