package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// widestLine is in columns; a tab has 4.
const widestLine = 140

// No line of Go is wider than widestLine, apart from generated files.
func TestLinesAreNarrow(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "bin" || e.Name() == "build" || e.Name() == "out" || len(e.Name()) > 2 && e.Name()[0] == '.'):
			return filepath.SkipDir
		case e.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		before, _, _ := strings.Cut("\n"+string(text), "\npackage ")
		if err != nil || strings.Contains(before, "// Code generated ") {
			return err
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")) + 3*strings.Count(line, "\t"); n > widestLine {
				t.Errorf("%s:%d has %d columns, expected at most %d", strings.TrimPrefix(path, "../../"), number, n, widestLine)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
