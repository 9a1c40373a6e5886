package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mostGoldenLines limits the total lines of golden files; never raise it. Goldens show layouts; tests of
// properties cover values and sentences.
const mostGoldenLines = 5855

func TestGoldensStaySmall(t *testing.T) {
	total, largest, most := 0, "", 0
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != "../.." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "bin" || e.Name() == "build"):
			return fs.SkipDir
		case e.IsDir() || filepath.Ext(path) != ".golden":
			return nil
		}
		text, err := os.ReadFile(path)
		n := bytes.Count(text, []byte("\n"))
		if total += n; n > most {
			largest, most = path, n
		}
		return err
	})
	if err != nil || total == 0 {
		t.Fatalf("%d lines were read: %v", total, err)
	}
	if total > mostGoldenLines {
		t.Errorf("golden files have %d lines, expected at most %d; the largest is %s with %d", total, mostGoldenLines, largest, most)
	}
}
