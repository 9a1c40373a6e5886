package kernels

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every optional interface must be in the table above them, exactly once.
func TestOptionalInterfacesAreListed(t *testing.T) {
	text, err := os.ReadFile("optional.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^//\t(?:Device|Kernel|Buffer|Weights|Launch|Provider) +(\w+) `).
		FindAllStringSubmatch(string(text), -1) {
		if listed[m[1]] {
			t.Errorf("%s is listed twice", m[1])
		}
		listed[m[1]] = true
	}
	files := token.NewFileSet()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, e.Name(), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	pkg, err := doc.NewFromFiles(files, parsed, "kernels")
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	for _, typ := range pkg.Types {
		spec := typ.Decl.Specs[0].(*ast.TypeSpec)
		_, is := spec.Type.(*ast.InterfaceType)
		here := files.Position(spec.Pos()).Filename == "optional.go"
		if is && (here || strings.Contains(typ.Doc, "is implemented by")) {
			declared++
			if !listed[typ.Name] || !here {
				t.Errorf("%s is optional: expected in optional.go and in its table", typ.Name)
			}
		}
	}
	if declared == 0 || declared != len(listed) {
		t.Errorf("%d optional interfaces, %d in the table", declared, len(listed))
	}
}
