package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/results/table/file"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// checkTablePath returns an error if no table can be written to path, before any measuring. flag names the
// flag with the path.
func checkTablePath(flag, path string, force bool) error {
	ext := strings.TrimPrefix(filepath.Ext(path), ".")
	if !slices.Contains(file.Extensions, ext) {
		return usagef("--%s: %q ends in %q, expected .json, .csv, .h or .go", flag, path, filepath.Ext(path))
	}
	if ext == "go" {
		if err := file.CheckGoPath(path); err != nil {
			return badFlag(flag, err)
		}
	}
	return refuseExisting(path, force)
}

// checkTablePaths is checkTablePath for several distinct files.
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

// writeTables writes the lookup table of remedies in the format of each path's extension. A table is valid
// for one device; for several devices, each table's name includes its device. It returns the base names of
// the files.
func (a *app) writeTables(paths []string, force bool, meta results.Meta, found *remedy.Result) ([]string, error) {
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

func fileSafe(id string) string { return strings.NewReplacer(":", "", "/", "-").Replace(id) }

func (a *app) writeTable(paths []string, force bool, meta results.Meta, found *remedy.Result) ([]string, error) {
	t, err := remedy.BuildTable(meta, found)
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
		if n := len(t.Advice); n > 0 && filepath.Ext(path) != ".json" {
			a.notef("%s has no advice on weights; a table in JSON has %d", path, n)
		}
		names = append(names, filepath.Base(path))
	}
	return names, nil
}

func (a *app) encodeTable(w io.Writer, t *table.Table, path string) error {
	if a.spreadsheet {
		return file.Write(w, t, path, export.SpreadsheetCell)
	}
	return file.Write(w, t, path, nil)
}
