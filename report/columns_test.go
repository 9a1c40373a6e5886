package report

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mostColumnLists is how many lists of columns are written out in source. It only falls: a table that shows a declared record
// takes its columns from the fields of that record.
const mostColumnLists = 62

func TestColumnsFollowFromFields(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	files := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if list, ok := n.(*ast.CompositeLit); ok {
				if of, ok := list.Type.(*ast.ArrayType); ok {
					if name, ok := of.Elt.(*ast.Ident); ok && name.Name == "Column" && len(list.Elts) > 0 {
						found = append(found, files.Position(list.Pos()).String())
					}
				}
			}
			return true
		})
	}
	if len(found) > mostColumnLists {
		t.Errorf("%d lists of columns are written out, expected at most %d:\n%s", len(found), mostColumnLists, strings.Join(found, "\n"))
	}
	t.Logf("%d lists:\n%s", len(found), strings.Join(found, "\n"))
}
