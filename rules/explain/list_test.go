package explain

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/glossary.md")

// docs/glossary.md must match the command; -update writes it.
func TestGlossaryPage(t *testing.T) {
	const path = "../../docs/glossary.md"
	page := Glossary()
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if page != string(want) {
		t.Errorf("%s differs from the command; run with -update to write it", path)
	}
}

func TestEdits(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"pad", "pad", 0}, {"pad", "pat", 1}, {"kitten", "sitting", 3},
		{"monotonic", "monotnic", 1}} {
		if got := edits(tc.a, tc.b); got != tc.want {
			t.Errorf("%q, %q: %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
