// Package published holds sweeps measured and published by others, for tests of the rules. See
// testdata/README.md for sources and licenses. Only tests import it.
package published

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// The sweeps' file names, which contain device, versions, shape and data type.
const (
	// RTX4090 is 8197 batches in fp16 with K 4096 and N 14336.
	RTX4090 = "torchgemm_NVIDIA_GeForce_RTX_4090_torch_2.5.1+cu124_K4096_N14336_dtypefloat16.csv"
	// A800 is 517 batches in bf16 with K 4096 and N 4096.
	A800 = "torchgemm_NVIDIA_A800_80GB_PCIe_torch_2.5.1+cu124_K4096_N4096_bfloat16.csv"
)

//go:embed testdata/*.csv.gz
var compressed embed.FS

// Read returns a sweep's CSV.
func Read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := compressed.ReadFile("testdata/" + name + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return text
}

// Folder writes all CSVs to a temporary folder of the test.
func Folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{RTX4090, A800} {
		if err := os.WriteFile(filepath.Join(dir, name), Read(t, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
