package kernels

import "strings"

// VersionedName is the name of a library's kernel where several versions of the library are
// measured beside each other: "openblas@0.3.21". [SplitVersion] takes it apart.
func VersionedName(kernel, version string) string { return kernel + "@" + version }

// SplitVersion takes the name of a library's kernel apart: "openblas@0.3.21" is "openblas" and "0.3.21". Other names come
// back whole, with no version. A choice, as in "cublaslt@12.4:2", is to be taken off before.
func SplitVersion(name string) (kernel, version string) {
	kernel, version, _ = strings.Cut(name, "@")
	return kernel, version
}

// IsVersionOf says whether a name is that of one version of a library's kernel.
func IsVersionOf(name, kernel string) bool {
	base, version := SplitVersion(name)
	return version != "" && base == kernel
}

// partOf are libraries that compute by another one and come in one package with it. Who chooses the algorithm is all in
// which their kernels differ.
var partOf = map[string]string{"cublaslt": "cublas"}

// PackageOf is the library whose package a library comes in, mostly the library itself: "cublas" for "cublaslt".
func PackageOf(library string) string {
	if whole, ok := partOf[library]; ok {
		return whole
	}
	return library
}

// ChooserOf is the name that all kernels have in common that are choices of one version of a library: "cublas@12.4" for
// "cublaslt@12.4:2".
func ChooserOf(kernel string) string {
	base, _ := SplitCandidate(kernel)
	library, version := SplitVersion(base)
	if version == "" {
		return PackageOf(library)
	}
	return VersionedName(PackageOf(library), version)
}
