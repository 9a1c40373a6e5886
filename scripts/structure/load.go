package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/callgraph"
	"golang.org/x/tools/go/callgraph/cha"
	"golang.org/x/tools/go/callgraph/vta"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// module is the packages of one module, without tests, and the calls among them.
type module struct {
	dir, path string
	packages  []*packages.Package
	calls     *callgraph.Graph
}

func load(dir string, patterns []string) (*module, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	// Imported modules are read from export data: nothing of them is counted.
	config := packages.Config{Mode: packages.LoadSyntax | packages.NeedModule, Dir: dir, Env: append(os.Environ(), "GOWORK=off")}
	loaded, err := packages.Load(&config, patterns...)
	if err != nil {
		return nil, err
	}
	for _, p := range loaded {
		for _, e := range p.Errors {
			return nil, fmt.Errorf("%s: %w", p.PkgPath, e)
		}
	}
	if len(loaded) == 0 || loaded[0].Module == nil {
		return nil, fmt.Errorf("%s: no packages of a module match %s", dir, strings.Join(patterns, " "))
	}
	slices.SortFunc(loaded, func(a, b *packages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) })
	m := &module{dir: dir, path: loaded[0].Module.Path, packages: loaded}
	program, built := ssautil.Packages(loaded, ssa.InstantiateGenerics)
	program.Build()
	m.calls = vta.CallGraph(ssautil.AllFunctions(program), cha.CallGraph(program))
	m.keepReached(built)
	return m, nil
}

// keepReached removes functions from the graph that no call from main or from an initializer reaches.
func (m *module) keepReached(built []*ssa.Package) {
	reached := map[*callgraph.Node]bool{}
	var visit func(*callgraph.Node)
	visit = func(n *callgraph.Node) {
		if n == nil || reached[n] {
			return
		}
		reached[n] = true
		for _, e := range n.Out {
			visit(e.Callee)
		}
		// A function that is declared inside another runs with it, also if a library calls it.
		for _, inner := range n.Func.AnonFuncs {
			visit(m.calls.Nodes[inner])
		}
	}
	for _, p := range built {
		if p == nil {
			continue
		}
		visit(m.calls.Nodes[p.Func("init")])
		if p.Pkg.Name() == "main" {
			visit(m.calls.Nodes[p.Func("main")])
		}
	}
	for _, n := range m.calls.Nodes {
		if n != nil && !reached[n] {
			m.calls.DeleteNode(n)
		}
	}
}

// short is a package's path inside the module.
func (m *module) short(path string) string {
	if path == m.path {
		return "."
	}
	return strings.TrimPrefix(path, m.path+"/")
}
