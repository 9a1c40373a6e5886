package report

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// mostColumnLists limits the hand-written column lists; never raise it. Tables of declared records take their
// columns from the record's fields.
const mostColumnLists = 16

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
