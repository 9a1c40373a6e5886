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
