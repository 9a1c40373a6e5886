package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The packages, with the imports of this module allowed to each: measuring must not depend on judging, nor
// output on kernels. Shared parts are below both.
func TestPackagesImportDownwards(t *testing.T) {
	const module = "github.com/gemmaudit/gemmaudit/"
	for pkg, forbidden := range map[string][]string{
		"kernels":     {"results", "sweep", "rules", "report"},
		"results":     {"sweep", "rules", "report"},
		"sweep":       {"rules", "report", "kernels/mistral", "kernels/cpu", "kernels/cuda"},
		"rules":       {"sweep", "report", "kernels/mistral", "kernels/cpu", "kernels/cuda"},
		"rules/stats": {"kernels", "results", "sweep", "rules", "report"},
		"report":      {"sweep", "kernels/mistral", "kernels/cpu", "kernels/cuda"},
	} {
		out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, module+pkg).Output()
		if err != nil {
			t.Fatalf("%s: %v", pkg, err)
		}
		imports := strings.Fields(string(out))
		if len(imports) == 0 {
			t.Errorf("%s imports nothing at all", pkg)
		}
		for _, i := range imports {
			for _, f := range forbidden {
				if i == module+f {
					t.Errorf("%s imports %s", pkg, f)
				}
			}
		}
	}
}

// Properties of device kinds must be entries in kernels' table, so a new kind needs no case in every package.
func TestKindsAreNamedByTheirProviders(t *testing.T) {
	named := regexp.MustCompile(`\bkernels\.(CPU|CUDA)\b`)
	files := 0
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			// Folders below kernels are providers, except the decoder.
			provider, below := strings.CutPrefix(filepath.ToSlash(path), "../../kernels/")
			if e.Name() == ".git" || below && provider != "mistral" {
				return fs.SkipDir
			}
			return nil
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if at := named.Find(text); at != nil {
			t.Errorf("%s names %s", path, at)
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files were read: %v", files, err)
	}
}
