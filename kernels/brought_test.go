package kernels

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLibraryVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lib.so")
	if err := os.WriteFile(path, []byte("a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := FileSHA256(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, release, build, want string }{
		{"openblas", "0.3.21", "", "0.3.21"},
		{"openblas", "0.3.21", "Zen", "0.3.21 Zen"},
		{"openblas@0.3.21", "0.3.21", "Zen", "0.3.21 Zen"},
		{"cublas@1", "12.4", "", "12.4 sha256 " + sum[:digestShown]},
		{"cublas@2", "12.4", "b7", "12.4 b7 sha256 " + sum[:digestShown]},
	} {
		if got := LibraryVersion(c.name, c.release, c.build, path); got != c.want {
			t.Errorf("%s %s %s: %q, want %q", c.name, c.release, c.build, got, c.want)
		}
	}
	if got := LibraryVersion("cublas@1", "12.4", "", path+" is gone"); got != "12.4" {
		t.Errorf("without its file it is %q", got)
	}
}
