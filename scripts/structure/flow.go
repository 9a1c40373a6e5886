package main

import (
	"fmt"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

const flowSection = "path of a value"

// path is the way of a value that has one type after another.
type path struct {
	title string
	types []string
}

type pathList []path

func (l *pathList) String() string { return "" }

// Set reads 'TITLE: pkg.Type pkg.Type'.
func (l *pathList) Set(text string) error {
	title, names, ok := strings.Cut(text, ":")
	words := strings.Fields(names)
	if !ok || len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(w, ".") }) {
		return fmt.Errorf("%q: expected 'TITLE: pkg.Type pkg.Type'", text)
	}
	*l = append(*l, path{title, words})
	return nil
}

// flows counts, for each path, the functions that pass the value on, the calls among them, and those between packages.
func (m *module) flows(paths []path) []figure {
	var all []figure
	for _, p := range paths {
		functions, calls, crossings := map[*ssa.Function]bool{}, map[[2]*ssa.Function]bool{}, 0
		for f, n := range m.calls.Nodes {
			if f == nil || !m.passes(f, p.types) {
				continue
			}
			for _, e := range n.Out {
				to := e.Callee.Func
				if call := [2]*ssa.Function{f, to}; to != f && !calls[call] && m.passes(to, p.types) {
					calls[call], functions[f], functions[to] = true, true, true
					if packageOf(f) != packageOf(to) {
						crossings++
					}
				}
			}
		}
		all = append(all, row(flowSection, p.title, len(functions), len(calls), crossings))
	}
	return all
}

// packageOf is the package that declares a function; an instance of a generic function and a wrapper have their origin's.
func packageOf(f *ssa.Function) *types.Package {
	for f.Parent() != nil {
		f = f.Parent()
	}
	switch o := f.Origin(); {
	case o != nil && o.Pkg != nil:
		return o.Pkg.Pkg
	case f.Pkg != nil:
		return f.Pkg.Pkg
	case f.Object() != nil:
		return f.Object().Pkg()
	}
	return nil
}

// passes reports whether a receiver, a parameter or a result of f has one of the types.
func (m *module) passes(f *ssa.Function, names []string) bool {
	s := f.Signature
	if r := s.Recv(); r != nil && m.carries(r.Type(), names) {
		return true
	}
	for _, tuple := range []*types.Tuple{s.Params(), s.Results()} {
		for v := range tuple.Variables() {
			if m.carries(v.Type(), names) {
				return true
			}
		}
	}
	return false
}

// carries reports whether t is one of the types, or made of pointers, slices, arrays, maps or channels of one.
func (m *module) carries(t types.Type, names []string) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Pointer:
		return m.carries(t.Elem(), names)
	case *types.Slice:
		return m.carries(t.Elem(), names)
	case *types.Array:
		return m.carries(t.Elem(), names)
	case *types.Chan:
		return m.carries(t.Elem(), names)
	case *types.Map:
		return m.carries(t.Key(), names) || m.carries(t.Elem(), names)
	case *types.Named:
		if t.Obj().Pkg() == nil {
			return false
		}
		declared := m.short(t.Obj().Pkg().Path())
		return slices.ContainsFunc(names, func(name string) bool {
			dot := strings.LastIndex(name, ".")
			return name[dot+1:] == t.Obj().Name() && strings.HasPrefix(declared+"/", name[:dot]+"/")
		})
	}
	return false
}
