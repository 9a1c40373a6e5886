package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// mutant is one change of one file.
type mutant struct {
	room, file string
	line, col  int
	// name has no line number: "rules/fdr.go reject: < to <= #1" is the first such change in that function.
	name       string
	start, end int // bytes to replace
	with       string
	global     bool // outside of functions
}

// mutantsOf lists the mutants of a package's own files, in order.
func mutantsOf(room string) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(filepath.FromSlash(room), "*.go"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("package %q has no files: expected the root of the repository as working folder", room)
	}
	var out []mutant
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		if built, err := build.Default.MatchFile(filepath.Dir(p), filepath.Base(p)); err != nil || !built {
			if err != nil {
				return nil, err
			}
			continue // for another system; its tests can't run here
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		found, err := mutantsIn(room, path.Join(room, filepath.Base(p)), src)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// otherwise maps operators to replacements: a shifted bound and the opposite.
var otherwise = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.MUL_ASSIGN: {token.QUO_ASSIGN}, token.QUO_ASSIGN: {token.MUL_ASSIGN},
}

// mutantsIn lists changes of operators, numbers, conditions and statements in a file. It skips text, and error handling,
// which only a fault reaches.
func mutantsIn(room, file string, src []byte) ([]mutant, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []mutant
	seen := map[string]int{}
	in, global := "", false
	at := func(p token.Pos) int { return set.Position(p).Offset }
	add := func(what string, from, to token.Pos, with string) {
		name := fmt.Sprintf("%s %s: %s", file, in, what)
		seen[name]++
		p := set.Position(from)
		out = append(out, mutant{room: room, file: file, line: p.Line, col: p.Column, name: fmt.Sprintf("%s #%d", name, seen[name]),
			start: at(from), end: at(to), with: with, global: global})
	}
	text := func(n ast.Node) string { return string(src[at(n.Pos()):at(n.End())]) }
	replace := func(p token.Pos, op token.Token) {
		for _, with := range otherwise[op] {
			add(op.String()+" to "+with.String(), p, p+token.Pos(len(op.String())), with.String())
		}
	}
	visit := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.StructType, *ast.ArrayType:
			return false // tags and lengths
		case *ast.BinaryExpr:
			if aboutError(n) || isText(n.X) || isText(n.Y) {
				return !aboutError(n)
			}
			replace(n.OpPos, n.Op)
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				add("! away", n.OpPos, n.OpPos+1, "")
			}
		case *ast.AssignStmt:
			if n.Tok != token.ASSIGN && n.Tok != token.DEFINE && !isText(n.Rhs[0]) {
				replace(n.TokPos, n.Tok)
				add("statement away", n.Pos(), n.End(), "")
			}
		case *ast.IncDecStmt:
			with := map[token.Token]string{token.INC: "--", token.DEC: "++"}[n.Tok]
			add(n.Tok.String()+" to "+with, n.TokPos, n.TokPos+2, with)
		case *ast.ExprStmt:
			add(short(text(n))+" away", n.Pos(), n.End(), "")
		case *ast.IfStmt:
			if !mentionsError(n.Cond) {
				cond := text(n.Cond)
				add("if never: "+short(cond), n.Cond.Pos(), n.Cond.End(), "false && ("+cond+")")
			}
		case *ast.BranchStmt:
			if n.Label == nil && n.Tok == token.CONTINUE {
				add("continue away", n.Pos(), n.End(), "")
			}
		case *ast.BasicLit:
			switch n.Kind {
			case token.INT:
				const digits = 10 // from this value on, one more is rarely a mistake
				if v, err := strconv.ParseInt(n.Value, 0, 32); err == nil && v >= digits {
					add(n.Value+" ten times", n.Pos(), n.End(), "(10 * "+n.Value+")")
				} else if err == nil {
					add(n.Value+" to "+fmt.Sprint(v+1), n.Pos(), n.End(), fmt.Sprint(v+1))
				}
			case token.FLOAT:
				if v, err := strconv.ParseFloat(n.Value, 64); err == nil && v != 0 {
					add(n.Value+" ten times", n.Pos(), n.End(), "(10 * "+n.Value+")")
				}
			}
		}
		return true
	}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if in, global = d.Name.Name, false; d.Body != nil && in != "String" && in != "Error" {
				ast.Inspect(d.Body, visit)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok {
					in, global = v.Names[0].Name, true
					ast.Inspect(v, visit)
				}
			}
		}
	}
	return out, nil
}

// short shortens a text to one line of a few words.
func short(s string) string {
	const most = 50
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}

// aboutError reports whether a comparison compares an error with nil.
func aboutError(n *ast.BinaryExpr) bool {
	nothing, ok := n.Y.(*ast.Ident)
	return ok && nothing.Name == "nil" && mentionsError(n.X)
}

// mentionsError reports whether an expression uses an error, by its name.
func mentionsError(n ast.Expr) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && (id.Name == "err" || id.Name == "errors") {
			found = true
		}
		return !found
	})
	return found
}

// isText reports whether an expression is a string literal or a sum with one.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING || e.Kind == token.CHAR
	case *ast.BinaryExpr:
		return isText(e.X) || isText(e.Y)
	}
	return false
}
