package kernels

import "testing"

func TestVersionsInNames(t *testing.T) {
	for _, c := range []struct{ name, kernel, version, chooser string }{
		{"mma", "mma", "", "mma"},
		{"cublaslt", "cublaslt", "", "cublas"},
		{"cublaslt:2", "cublaslt:2", "", "cublas"},
		{"cublaslt@12.4", "cublaslt", "12.4", "cublas@12.4"},
		{"cublaslt@12.4:2", "cublaslt", "12.4:2", "cublas@12.4"},
		{"cublas@12.4", "cublas", "12.4", "cublas@12.4"},
		{"openblas@0.3.21", "openblas", "0.3.21", "openblas@0.3.21"},
		{"cublaslts", "cublaslts", "", "cublaslts"},
		{"cublas-grouped@12.5", "cublas-grouped", "12.5", "cublas-grouped@12.5"}, // another way to compute, no other choice
	} {
		kernel, version := SplitVersion(c.name)
		if kernel != c.kernel || version != c.version || ChooserOf(c.name) != c.chooser {
			t.Errorf("%q is %q in version %q, chosen by %q; expected %q, %q and %q", c.name, kernel, version, ChooserOf(c.name), c.kernel,
				c.version, c.chooser)
		}
		if is := IsVersionOf(c.name, c.kernel); is != (c.version != "") {
			t.Errorf("%q is a version of %q: %v", c.name, c.kernel, is)
		}
	}
}

func TestPackages(t *testing.T) {
	for library, want := range map[string]string{
		"cublas": "cublas", "cublaslt": "cublas", "cublas-streams": "cublas", "cublaslt-streams": "cublas", "cublas-grouped": "cublas",
		"cublas-separate": "cublas", "cublaslt-separate": "cublas",
		"openblas": "openblas", "auto": "auto",
	} {
		if got := PackageOf(library); got != want {
			t.Errorf("%s is in the package of %s, want %s", library, got, want)
		}
	}
	for kernel, want := range map[string]string{"cublas": "cublas-streams", "cublas@12.4": "cublas-streams@12.4"} {
		if got := VariantName(kernel, "streams"); got != want {
			t.Errorf("variant of %s: %s, want %s", kernel, got, want)
		}
	}
}
