package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// The environment of a test program with mutants: which one is in force, and the file to which those that are reached are
// appended, a number each line.
const (
	inForceVariable = "MUTANT_IN_FORCE"
	reachedVariable = "MUTANTS_REACHED"
)

// numbered is a mutant among those of one program.
type numbered struct {
	mutant
	number int
}

// edit replaces bytes of a file.
type edit struct {
	start, end int
	with       string
}

// graft returns a file in which a changed copy of its function stands for each mutant. The function as it was begins with the
// choice: the copy whose number is in force, else itself. ungrafted are the mutants for which there is no such copy: those of
// variables and constants, of generic functions and of init.
func graft(file string, src []byte, mutants []numbered) (out []byte, ungrafted []numbered, err error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	var edits []edit
	var copies bytes.Buffer
	left := slices.Clone(mutants)
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || !copiable(f) {
			continue
		}
		start, end := at(f.Pos()), at(f.End())
		var own []numbered
		left = slices.DeleteFunc(left, func(m numbered) bool {
			inside := start <= m.start && m.end <= end
			if inside {
				own = append(own, m)
			}
			return inside
		})
		if len(own) == 0 {
			continue
		}
		header, receiver, arguments := named(f, at)
		choice := ""
		for _, m := range own {
			name := fmt.Sprintf("%s_mutant%d", f.Name.Name, m.number)
			changed := append(slices.Clone(header), edit{at(f.Name.Pos()), at(f.Name.End()), name}, edit{m.start, m.end, m.with})
			fmt.Fprintf(&copies, "\n//line mutant%d.go:1\n%s\n", m.number, rewritten(src, start, end, changed))
			call := receiver + name + "(" + arguments + ")"
			if f.Type.Results.NumFields() > 0 {
				choice += fmt.Sprintf(" if mutantIs(%d) { return %s };", m.number, call)
			} else {
				choice += fmt.Sprintf(" if mutantIs(%d) { %s; return };", m.number, call)
			}
		}
		edits = append(append(edits, header...), edit{at(f.Body.Lbrace) + 1, at(f.Body.Lbrace) + 1, choice})
	}
	return append(rewritten(src, 0, len(src), edits), copies.Bytes()...), left, nil
}

// copiable says whether a function can have copies under other names that are called with its own arguments.
func copiable(f *ast.FuncDecl) bool {
	if f.Type.TypeParams != nil || f.Name.Name == "_" || f.Recv == nil && f.Name.Name == "init" {
		return false
	}
	generic := false
	if f.Recv != nil {
		ast.Inspect(f.Recv, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.IndexExpr, *ast.IndexListExpr:
				generic = true
			}
			return true
		})
	}
	return !generic
}

// named returns the edits by which each parameter has a name, and how the function's copy is called with them: the receiver
// with its dot, and the arguments.
func named(f *ast.FuncDecl, at func(token.Pos) int) (edits []edit, receiver, arguments string) {
	n := 0
	names := func(list *ast.FieldList) (out []string) {
		for _, field := range list.List {
			after := ""
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				after = "..."
			}
			if len(field.Names) == 0 {
				n++
				name := fmt.Sprintf("mutantArgument%d", n)
				edits = append(edits, edit{at(field.Type.Pos()), at(field.Type.Pos()), name + " "})
				out = append(out, name+after)
			}
			for _, id := range field.Names {
				name := id.Name
				if name == "_" {
					n++
					name = fmt.Sprintf("mutantArgument%d", n)
					edits = append(edits, edit{at(id.Pos()), at(id.End()), name})
				}
				out = append(out, name+after)
			}
		}
		return out
	}
	if f.Recv != nil {
		receiver = names(f.Recv)[0] + "."
	}
	return edits, receiver, strings.Join(names(f.Type.Params), ", ")
}

// rewritten returns the bytes from start to end with edits, none of which overlap.
func rewritten(src []byte, start, end int, edits []edit) []byte {
	edits = slices.SortedFunc(slices.Values(edits), func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	var out []byte
	for _, e := range edits {
		out = append(append(out, src[start:e.start]...), e.with...)
		start = e.end
	}
	return append(out, src[start:end]...)
}

// chooser is the file that a package with mutants has in addition.
func chooser(name string) []byte {
	return fmt.Appendf(nil, `package %s

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

var (
	mutantInForce, _ = strconv.Atoi(os.Getenv(%q))
	mutantsReached   = os.Getenv(%q)
	mutantsSeen      sync.Map
)

func mutantIs(n int) bool {
	return mutantInForce == n || mutantsReached != "" && mutantReached(n)
}

func mutantReached(n int) bool {
	if _, seen := mutantsSeen.LoadOrStore(n, true); !seen {
		f, err := os.OpenFile(mutantsReached, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, n)
			f.Close()
		}
		if err != nil {
			panic(err)
		}
	}
	return false
}
`, name, inForceVariable, reachedVariable)
}
