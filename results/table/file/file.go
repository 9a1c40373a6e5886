// Package file writes lookup tables as files: JSON, CSV, a C header or a Go package, by the extension.
package file

import (
	"fmt"
	"go/build"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results/table"
)

// Extensions are those of a table's files.
var Extensions = []string{"json", "csv", "h", "go"}

// Write writes a table in the format of path's extension, JSON by default. guard may change cells of CSV; it may
// be nil.
func Write(w io.Writer, t *table.Table, path string, guard func(string) string) error {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	switch filepath.Ext(path) {
	case ".csv":
		return t.WriteCSV(w, guard)
	case ".h":
		return t.WriteHeader(w, identifier(name))
	case ".go":
		return t.WriteGo(w, goPackage(path))
	}
	text, err := t.Marshal()
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

func goPackage(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	return strings.ReplaceAll(identifier(name), "_", "")
}

// CheckGoPath returns an error if the Go file at path cannot be imported as a package: because of its package
// name, which is the file's name, or because go gives the file name a meaning.
func CheckGoPath(path string) error {
	file := filepath.Base(path)
	if err := CheckGoPackage(path); err != nil {
		return err
	}
	// On a system without a name, go builds only files for all systems.
	anywhere := build.Context{GOOS: "none", GOARCH: "none", Compiler: "gc", OpenFile: func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("package p\n")), nil
	}}
	builds, err := anywhere.MatchFile(".", file)
	switch {
	case err != nil:
		return err
	case strings.HasSuffix(file, "_test.go"):
		return fmt.Errorf("Go builds %q only for tests: expected a name that does not end in _test.go", file)
	case strings.HasPrefix(file, "_") || strings.HasPrefix(file, "."):
		return fmt.Errorf("Go ignores %q: expected a name that does not begin with %q", file, file[:1])
	case !builds:
		return fmt.Errorf("Go builds %q only for the system or processor in its name: expected another ending", file)
	}
	return nil
}

// CheckGoPackage returns an error if the package name of the Go file at path cannot be imported.
func CheckGoPackage(path string) error {
	switch name := goPackage(path); {
	case token.IsKeyword(name):
		return fmt.Errorf("%q makes the package %s, a keyword of Go: expected another name", path, name)
	case slices.Contains([]string{"main", "init", "documentation"}, name):
		return fmt.Errorf("%q makes the package %s, which Go can't import: expected another name", path, name)
	}
	return nil
}

func identifier(name string) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, name)
	id = strings.Trim(id, "_")
	if id == "" || id[0] >= '0' && id[0] <= '9' {
		id = "gemm" + id
	}
	return id
}
