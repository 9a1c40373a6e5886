package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// knowing are the packages where operations are defined or their kernels live. Others ask the definition.
var knowing = []string{"kernels/cpu/", "kernels/cuda/", "kernels/plugin/"}

// No other package compares an operation with a known one or finds kernels by one.
func TestNoneSwitchesOnOperations(t *testing.T) {
	files := sources(t)
	constants := constantsOf(t, files["kernels/operation.go"], "Operation")
	if len(constants) != len(kernels.Operations()) {
		t.Fatalf("%d constants of %d operations: %v", len(constants), len(kernels.Operations()), constants)
	}
	for path, text := range files {
		allowed := strings.HasPrefix(path, "kernels/") && strings.Count(path, "/") == 1
		for _, prefix := range knowing {
			allowed = allowed || strings.HasPrefix(path, prefix)
		}
		if allowed || !strings.HasSuffix(path, ".go") {
			continue
		}
		for _, found := range switches(t, path, text, constants) {
			t.Errorf("%s: %s: ask the operation's definition", path, found)
		}
	}
}

// The test above finds each kind of switch.
func TestSwitchesAreFound(t *testing.T) {
	for _, code := range []string{
		"if o == kernels.GEMM {}", "if kernels.GEMM != o {}", "switch o { case kernels.GEMM: }", "kernels.Find(d, kernels.GEMM, name)",
		"d.Kernels(kernels.GEMM)", "_ = map[kernels.Operation]int{kernels.GEMM: 1}", `if s.Operation.String() == "gemm" {}`,
		`switch s.Operation.String() { case "gemm": }`,
	} {
		if text := "package p\nfunc f() { " + code + " }"; len(switches(t, code, text, map[string]bool{"GEMM": true})) != 1 {
			t.Errorf("%s is not found", code)
		}
	}
}

// constantsOf lists the constants of the block whose first one has the type.
func constantsOf(t *testing.T, text, typ string) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, decl := range file.Decls {
		block, ok := decl.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		if first, ok := block.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident); !ok || first.Name != typ {
			continue
		}
		for _, spec := range block.Specs {
			out[spec.(*ast.ValueSpec).Names[0].Name] = true
		}
	}
	return out
}

// switches lists the places of a file that compare an operation with a constant or by name, or look something up by one.
func switches(t *testing.T, path, text string, constants map[string]bool) (found []string) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	named := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		of, ok := s.X.(*ast.Ident)
		return ok && of.Name == "kernels" && constants[s.Sel.Name]
	}
	add := func(n ast.Node, what string) { found = append(found, fset.Position(n.Pos()).String()+": "+what) }
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			compares := n.Op == token.EQL || n.Op == token.NEQ
			if compares && (named(n.X) || named(n.Y) || byName(n.X) && isWord(n.Y) || isWord(n.X) && byName(n.Y)) {
				add(n, "a comparison with an operation")
			}
		case *ast.SwitchStmt:
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					if named(e) || n.Tag != nil && byName(n.Tag) && isWord(e) {
						add(e, "a case of an operation")
					}
				}
			}
		case *ast.KeyValueExpr:
			if named(n.Key) {
				add(n, "a table by operation")
			}
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.SelectorExpr)
			for _, e := range n.Args {
				if ok && (f.Sel.Name == "Find" || f.Sel.Name == "Kernels") && named(e) {
					add(n, "kernels of a known operation")
				}
			}
		}
		return true
	})
	return found
}

func isWord(e ast.Expr) bool {
	l, ok := e.(*ast.BasicLit)
	return ok && l.Kind == token.STRING
}

// byName reports whether an expression is the name of an operation: x.Operation.String().
func byName(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "String" {
		return false
	}
	of, ok := s.X.(*ast.SelectorExpr)
	return ok && of.Sel.Name == "Operation"
}
