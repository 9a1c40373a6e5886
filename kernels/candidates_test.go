package kernels

import "testing"

func TestCandidateNames(t *testing.T) {
	for name, want := range map[string]struct {
		kernel string
		n      int
	}{
		"cublaslt:1": {"cublaslt", 1}, "cublaslt:99": {"cublaslt", 99}, "cublaslt": {"cublaslt", 0},
		"cublaslt:0": {"cublaslt:0", 0}, "cublaslt:100": {"cublaslt:100", 0}, "cublaslt:01": {"cublaslt:01", 0},
		"cublaslt:+1": {"cublaslt:+1", 0}, "cublaslt:": {"cublaslt:", 0}, ":1": {":1", 0}, "a:b": {"a:b", 0}, "": {"", 0},
	} {
		kernel, n := SplitCandidate(name)
		if kernel != want.kernel || n != want.n {
			t.Errorf("%q is %q and %d, want %q and %d", name, kernel, n, want.kernel, want.n)
		}
		if n > 0 && CandidateName(kernel, n) != name {
			t.Errorf("%q and %d make %q, want %q", kernel, n, CandidateName(kernel, n), name)
		}
	}
}
