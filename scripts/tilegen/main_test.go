package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const cuda = "../../kernels/cuda"

func TestTilesAreGenerated(t *testing.T) {
	files, err := generate(cuda)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what tiles.json makes (%v): run go generate ./kernels/cuda", name, err)
		}
	}
	for _, pattern := range []string{"*/*_tiles.cuh", "*/*/*_tiles.cuh", "*/tiles_generated.go", "*/*/tiles_generated.go"} {
		found, err := filepath.Glob(filepath.Join(cuda, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			if files[name] == nil {
				t.Errorf("%s: no tiles.json makes it", name)
			}
		}
	}
}

func TestRoom(t *testing.T) {
	const text = `[{"source": "x", "type": "tile", "fields": ["m", "n", "warps"], "device": ["n", "warps"], "go": ["m", "n"],
"lists": [{"macro": "GA_X", "name": "tiles", "comment": "All tiles.", "tiles": [[1, 2, 3], [4, 5, 6]]}]}]`
	files := map[string][]byte{}
	if err := room(files, "some/x", []byte(text)); err != nil {
		t.Fatal(err)
	}
	header, code := string(files["some/x/x_tiles.cuh"]), string(files["some/x/tiles_generated.go"])
	if !strings.Contains(header, "// All tiles.\n#define GA_X(K, ...) \\\n    K(__VA_ARGS__, 2, 3) \\\n    K(__VA_ARGS__, 5, 6)\n") {
		t.Errorf("header:\n%s", header)
	}
	if !strings.Contains(code, "package x\n\n// tiles is all tiles.\nvar tiles = []tile{\n\t{m: 1, n: 2}, {m: 4, n: 5},\n}\n") {
		t.Errorf("code:\n%s", code)
	}
	for from, to := range map[string]string{
		`[4, 5, 6]`: `[4, 5]`, `"go": ["m", "n"]`: `"go": ["k"]`, `"source"`: `"sources"`,
	} {
		if err := room(files, "x", []byte(strings.Replace(text, from, to, 1))); err == nil {
			t.Errorf("%s was taken", to)
		}
	}
}
