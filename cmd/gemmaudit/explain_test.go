package main

import (
	"os"
	"testing"
)

// TestExplainPage keeps docs/explain.md what the command says; -update writes it.
func TestExplainPage(t *testing.T) {
	const path = docs + "explain.md"
	page := explainPage()
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
		t.Errorf("%s is not what the command says; run with -update to write it", path)
	}
}

// TestEdits: how far words are from each other.
func TestEdits(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"pad", "pad", 0}, {"pad", "pat", 1}, {"kitten", "sitting", 3}, {"monotonic", "monotnic", 1}} {
		if got := edits(tc.a, tc.b); got != tc.want {
			t.Errorf("%q, %q: %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
