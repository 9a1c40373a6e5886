package main

import (
	"fmt"
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

// checkTablePath returns an error when no table can be written to path, before
// anything is measured for it.
func checkTablePath(path string, force bool) error {
	ext := strings.TrimPrefix(filepath.Ext(path), ".")
	if !slices.Contains(tableExtensions, ext) {
		return usagef("--table: %q ends in %q, expected .json, .csv, .h or .go", path, filepath.Ext(path))
	}
	return refuseExisting(path, force)
}

// writeTables writes the lookup table of what was found, in the form that each
// path's ending names.
func (a *app) writeTables(paths []string, force bool, meta results.Meta, found *rules.SplitsResult) error {
	if len(paths) == 0 {
		return nil
	}
	t, err := rules.BuildTable(meta, found)
	if err != nil {
		return fmt.Errorf("build the table: %w", err)
	}
	for _, path := range paths {
		err := a.writeFile(path, force, func(w io.Writer) error { return writeTable(w, t, path) })
		if err != nil {
			return err
		}
		a.notef("table: %s", path)
	}
	return nil
}

// writeTable writes a table in the form that the ending of path names.
func writeTable(w io.Writer, t *table.Table, path string) error {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	switch filepath.Ext(path) {
	case ".csv":
		return t.WriteCSV(w)
	case ".h":
		return t.WriteHeader(w, identifier(name))
	case ".go":
		return t.WriteGo(w, strings.ReplaceAll(identifier(name), "_", ""))
	}
	text, err := t.Marshal()
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
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
