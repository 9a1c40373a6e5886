package architecture

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/shapes.tsv")

// scripts/check_shapes.py compares the golden table with the models that transformers builds.
func TestShapes(t *testing.T) {
	const golden = "testdata/shapes.tsv"
	files, err := filepath.Glob("testdata/configs/*.json")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d configurations, %v; expected 60", len(files), err)
	}
	var out bytes.Buffer
	fmt.Fprintln(&out, "config\tpart\tof\tfuses\tn\tk\tlayers\texperts\tper_token")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		m, err := Read(file)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		weights, err := m.Weights(1, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, w := range weights {
			fmt.Fprintf(&out, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\n", name, w.Part, w.Of, strings.Join(w.Fuses, "+"), w.N, w.K, w.Layers,
				w.Experts, w.Active)
		}
	}
	if *update {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("the shapes are not those of %s: -update rewrites it, and scripts/check_shapes.py says whether they are right", golden)
	}
}
