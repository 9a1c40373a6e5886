package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Every column that a package declares must be known to explain, under its header and under its name in CSV.
func TestColumnsAreExplained(t *testing.T) {
	known, columns := map[string]bool{}, 0
	knows := func(word string) bool {
		if _, ok := known[word]; !ok {
			_, err := explained(word, 100)
			known[word] = err == nil
		}
		return known[word]
	}
	for _, dir := range []string{"../../report", "../../results"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok {
					return true
				}
				parts := map[string]string{}
				isField := false
				for _, e := range lit.Elts {
					pair, ok := e.(*ast.KeyValueExpr)
					if !ok {
						continue
					}
					key, _ := pair.Key.(*ast.Ident)
					if key == nil {
						continue
					}
					isField = isField || key.Name == "Words"
					if text, ok := joined(pair.Value); ok {
						parts[key.Name] = text
					}
				}
				if !isField || parts["Name"] == "" {
					return true
				}
				columns++
				for _, word := range []string{parts["Name"], parts["Head"]} {
					if word != "" && !knows(word) {
						t.Errorf("%s: explain does not know the column %q", set.Position(lit.Pos()), word)
					}
				}
				return true
			})
		}
	}
	if columns < 200 {
		t.Errorf("found %d columns in source, expected at least 200", columns)
	}
}
