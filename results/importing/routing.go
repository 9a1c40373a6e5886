package importing

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results"
)

const routingColumns = "the columns m, group and rows"

// ReadRouting reads a CSV with the columns m, group and rows, lines in any order: how many of m rows a group has. Groups
// count from 0; those that no line of an m names have no rows. An error of the content is an [*Error] with the line.
func ReadRouting(path string) (kernels.RecordedRouting, error) {
	var out kernels.RecordedRouting
	in, err := regular.Open(path)
	if err != nil {
		return out, err // names the file and the action
	}
	defer in.Close()
	f, err := newRecords(path, in, "a CSV with "+routingColumns, "")
	if err != nil {
		return out, err
	}
	more, err := f.next()
	if err != nil {
		return out, err
	}
	if !more {
		return out, &Error{Path: path, Reason: "the file is empty: expected lines of m,group,rows"}
	}
	if err := f.header(); err != nil {
		return out, err
	}
	if !f.has("m") || !f.has("group") || !f.has("rows") {
		return out, &Error{Path: path, Line: f.line,
			Reason: fmt.Sprintf("the header is %.200q, expected %s", strings.Join(f.names, ","), routingColumns)}
	}
	type place struct{ m, group int }
	lines, rows := map[place]int{}, map[place]int{}
	ms := map[int]bool{}
	for more, err = f.next(); more && err == nil; more, err = f.next() {
		m, err := f.rows()
		if err != nil {
			return out, err
		}
		group, err := f.dimension("group", 0)
		if err == nil && group >= kernels.MaxGroups {
			err = f.fail("group", "is above %d", kernels.MaxGroups-1)
		}
		if err != nil {
			return out, err
		}
		n, err := f.dimension("rows", 0)
		if err != nil {
			return out, err
		}
		at := place{m, group}
		if first, twice := lines[at]; twice {
			return out, f.fail("group", "of m %d is already in line %d", m, first)
		}
		ms[m] = true
		if len(ms) > results.MaxMs {
			return out, &Error{Path: path, Line: f.line, Reason: fmt.Sprintf("there are more than %d Ms", results.MaxMs)}
		}
		lines[at], rows[at] = f.line, n
		out.Groups = max(out.Groups, group+1)
	}
	if err != nil {
		return out, err
	}
	if len(ms)*max(1, out.Groups) > mostRoutingCells {
		return out, &Error{Path: path,
			Reason: fmt.Sprintf("%d Ms of %d groups, expected at most %d numbers", len(ms), out.Groups, mostRoutingCells)}
	}
	out.Rows = map[int][]int{}
	for m := range ms {
		out.Rows[m] = make([]int, out.Groups)
	}
	for at, n := range rows {
		out.Rows[at.m][at.group] = n
	}
	if err := out.Check(); err != nil {
		return out, &Error{Path: path, Reason: err.Error()}
	}
	return out, nil
}

// mostRoutingCells limits the memory of a table.
const mostRoutingCells = 1 << 22
