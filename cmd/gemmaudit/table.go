package main

import (
	"fmt"
	"go/build"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
)

// tableExtensions are the endings of the files in which a table is written,
// each a form of its own.
var tableExtensions = []string{"json", "csv", "h", "go"}

// checkTablePath returns an error when no table can be written to path, which the flag
// names, before anything is measured for it.
func checkTablePath(flag, path string, force bool) error {
	ext := strings.TrimPrefix(filepath.Ext(path), ".")
	if !slices.Contains(tableExtensions, ext) {
		return usagef("--%s: %q ends in %q, expected .json, .csv, .h or .go", flag, path, filepath.Ext(path))
	}
	if ext == "go" {
		if err := checkGoPath(flag, path); err != nil {
			return err
		}
	}
	return refuseExisting(path, force)
}

// checkTablePaths is checkTablePath of several files, each of which must be another one.
func checkTablePaths(paths []string, force bool) error {
	seen := map[string]bool{}
	for _, path := range paths {
		if err := checkTablePath("table", path, force); err != nil {
			return err
		}
		name, err := filepath.Abs(path)
		if err != nil {
			name = filepath.Clean(path)
		}
		if seen[name] {
			return usagef("--table: %q is given twice, expected another file for each", path)
		}
		seen[name] = true
	}
	return nil
}

// writeTables writes the lookup table of what was found, in the form that each
// path's ending names. A table holds for one device: of several, each gets its own,
// with its name before the ending. The base names of what was written come back.
func (a *app) writeTables(paths []string, force bool, meta results.Meta, found *rules.SplitsResult) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	devices := found.Devices()
	if len(devices) < 2 {
		return a.writeTable(paths, force, meta, found)
	}
	var names []string
	for _, id := range devices {
		var own []string
		for _, path := range paths {
			ext := filepath.Ext(path)
			own = append(own, strings.TrimSuffix(path, ext)+"-"+fileSafe(id)+ext)
		}
		written, err := a.writeTable(own, force, meta, found.On(id))
		if err != nil {
			return nil, err
		}
		names = append(names, written...)
	}
	return names, nil
}

// fileSafe is a device's id as a part of a file's name.
func fileSafe(id string) string { return strings.NewReplacer(":", "", "/", "-").Replace(id) }

// writeTable writes the table of one device in several forms.
func (a *app) writeTable(paths []string, force bool, meta results.Meta, found *rules.SplitsResult) ([]string, error) {
	t, err := rules.BuildTable(meta, found)
	if err != nil {
		return nil, fmt.Errorf("build the table: %w", err)
	}
	var names []string
	for _, path := range paths {
		err := a.writeFile(path, force, func(w io.Writer) error { return a.encodeTable(w, t, path) })
		if err != nil {
			return nil, err
		}
		a.notef("table: %s", path)
		names = append(names, filepath.Base(path))
	}
	return names, nil
}

// encodeTable writes a table in the form that the ending of path names.
func (a *app) encodeTable(w io.Writer, t *table.Table, path string) error {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	switch filepath.Ext(path) {
	case ".csv":
		var guard func(string) string
		if a.spreadsheet {
			guard = results.SpreadsheetCell
		}
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

// goPackage is the name of the package in the Go file at path.
func goPackage(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	return strings.ReplaceAll(identifier(name), "_", "")
}

// checkGoPath returns an error when the Go file at path would be no package that can be imported: for the package's
// name, which is that of the file, or for what go takes from a file's name.
func checkGoPath(flag, path string) error {
	file := filepath.Base(path)
	if err := checkGoPackage(flag, path); err != nil {
		return err
	}
	// Of a machine that there is none of, go builds what any machine builds.
	anywhere := build.Context{GOOS: "none", GOARCH: "none", Compiler: "gc", OpenFile: func(string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("package p\n")), nil
	}}
	builds, err := anywhere.MatchFile(".", file)
	switch {
	case err != nil:
		return badFlag(flag, err)
	case strings.HasSuffix(file, "_test.go"):
		return usagef("--%s: go builds %q only into tests: expected a name that does not end in _test.go", flag, file)
	case strings.HasPrefix(file, "_") || strings.HasPrefix(file, "."):
		return usagef("--%s: go passes over %q: expected a name that does not begin with %q", flag, file, file[:1])
	case !builds:
		return usagef("--%s: go builds %q only for the system or the processor at the end of its name: expected another end", flag, file)
	}
	return nil
}

// checkGoPackage returns an error when the file at path names a package that can't be imported.
func checkGoPackage(flag, path string) error {
	switch name := goPackage(path); {
	case token.IsKeyword(name):
		return usagef("--%s: %q names the package %s, which is a keyword of Go: expected another name", flag, path, name)
	case slices.Contains([]string{"main", "init", "documentation"}, name):
		return usagef("--%s: %q names the package %s, which go does not import: expected another name", flag, path, name)
	}
	return nil
}

// identifier makes a name that C and Go accept, in lower case.
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
