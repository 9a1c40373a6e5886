package main

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/tools/go/packages"
)

const (
	arrowSection = "arrows between files"
	allArrows    = "all packages"
)

// arrows counts the pairs of files of each package in which a lower one refers to a higher one.
func (m *module) arrows() []figure {
	var all []figure
	upward, total := 0, 0
	for _, p := range m.packages {
		refers := m.references(p)
		up, of := fewestUpward(refers)
		upward, total = upward+up, total+of
		if of > 0 {
			all = append(all, arrowFigure(m.short(p.PkgPath), up, of))
		}
	}
	return append(all, arrowFigure(allArrows, upward, total))
}

func arrowFigure(name string, up, of int) figure {
	return row(arrowSection, name, up, of, fmt.Sprintf("%.1f %%", 100*float64(up)/float64(max(of, 1))))
}

// references tells for each file of a package which others it refers to.
func (m *module) references(p *packages.Package) map[string]map[string]bool {
	refers := map[string]map[string]bool{}
	for identifier, o := range p.TypesInfo.Uses {
		if o.Pkg() != p.Types {
			continue
		}
		from, to := p.Fset.Position(identifier.Pos()).Filename, p.Fset.Position(o.Pos()).Filename
		if from == to {
			continue
		}
		for _, f := range []string{from, to} {
			if refers[f] == nil {
				refers[f] = map[string]bool{}
			}
		}
		refers[from][to] = true
	}
	return refers
}

// fewestUpward orders files so that few arrows point to an earlier one, and returns how many do and how many there are.
func fewestUpward(refers map[string]map[string]bool) (upward, total int) {
	names := slices.Sorted(maps.Keys(refers))
	arrow := make([][]int, len(names)) // arrow[i][j] is 1 if file i refers to file j
	for i, from := range names {
		arrow[i] = make([]int, len(names))
		for j, to := range names {
			if refers[from][to] {
				arrow[i][j] = 1
				total++
			}
		}
	}
	// Files that refer to many others and that few refer to come first.
	order := make([]int, len(names))
	surplus := make([]int, len(names))
	for i := range names {
		order[i] = i
		for j := range names {
			surplus[i] += arrow[i][j] - arrow[j][i]
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return surplus[b] - surplus[a] })
	for improve(order, arrow) {
	}
	for at, i := range order {
		for _, j := range order[:at] {
			upward += arrow[i][j]
		}
	}
	return upward, total
}

// improve moves each file to where fewest arrows point upward, and reports whether that changed anything.
func improve(order []int, arrow [][]int) bool {
	changed := false
	for i := range order {
		at := slices.Index(order, i)
		best, to := 0, at
		for _, step := range []int{1, -1} {
			change := 0
			for k := at + step; k >= 0 && k < len(order); k += step { // i passes the file at k: the arrows between the two turn
				if change += step * (arrow[i][order[k]] - arrow[order[k]][i]); change < best {
					best, to = change, k
				}
			}
		}
		if to != at {
			changed = true
			copy(order, slices.Insert(slices.Delete(slices.Clone(order), at, at+1), to, i))
		}
	}
	return changed
}
