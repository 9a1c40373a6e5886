package main

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	lineSection = "lines of Go"
	allLines    = "sum"
	widest      = 140
)

// generated matches the line that marks generated Go.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// lines counts the lines of each folder's Go files, and those wider than 140 columns.
func (m *module) lines() ([]figure, error) {
	type count struct{ lines, tests, wide, wideTests int }
	folders, sum := map[string]*count{}, count{}
	err := m.sources(func(name string, text []byte) {
		folder := filepath.ToSlash(filepath.Dir(name))
		if folders[folder] == nil {
			folders[folder] = &count{}
		}
		wide := 0
		if !generated.Match(text) {
			for line := range bytes.Lines(text) {
				if width(bytes.TrimRight(line, "\n")) > widest {
					wide++
				}
			}
		}
		for _, c := range []*count{folders[folder], &sum} {
			if lines := bytes.Count(text, []byte("\n")); strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata/") {
				c.tests, c.wideTests = c.tests+lines, c.wideTests+wide
			} else {
				c.lines, c.wide = c.lines+lines, c.wide+wide
			}
		}
	})
	if err != nil {
		return nil, err
	}
	var all []figure
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		c := folders[folder]
		all = append(all, row(lineSection, folder, c.lines, c.tests, c.wide, c.wideTests))
	}
	all = append(all, row(lineSection, allLines, sum.lines, sum.tests, sum.wide, sum.wideTests))
	return all, nil
}

// width is a line's columns; tabs have 4.
func width(line []byte) int { return utf8.RuneCount(line) + 3*bytes.Count(line, []byte("\t")) }

// sources visits the Go files of the module's folder, with their paths in it. Outputs of builds and hidden folders are left out.
func (m *module) sources(visit func(name string, text []byte)) error {
	return filepath.WalkDir(m.dir, func(full string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(m.dir, full)
		switch {
		case err != nil:
			return err
		case e.IsDir() && (name == "bin" || name == "build" || name == "out" || name != "." && strings.HasPrefix(e.Name(), ".")):
			return filepath.SkipDir
		case e.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		text, err := os.ReadFile(full)
		if err == nil {
			visit(filepath.ToSlash(name), text)
		}
		return err
	})
}
