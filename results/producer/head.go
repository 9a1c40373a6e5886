package producer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

type head struct {
	text  string
	lines []string
	rows  [][]string // lines as cells, in lower case
	// json means that the file begins as JSON.
	json bool
	// tunableOp means that a line is TunableOp's, tuned that one names a solution.
	tunableOp, tuned bool
}

func newHead(start []byte) head {
	h := head{text: trimMark(string(start[:min(len(start), HeadBytes)]))}
	h.json = strings.HasPrefix(strings.TrimLeft(h.text, " \t\r\n"), "{")
	for line := range strings.Lines(h.text) {
		line = strings.TrimSpace(line)
		h.lines = append(h.lines, line)
		if strings.Contains(line, ",") && !h.json {
			h.rows = append(h.rows, columnNames(cells(line)))
		}
	}
	for i, line := range h.lines {
		fields := strings.Split(line, ",")
		operator := strings.Contains(fields[0], "TunableOp_")
		// TunableOp files have no header; in other programs' files one may follow.
		h.tunableOp = h.tunableOp || i == 0 && (operator || fields[0] == "Validator") || operator && len(fields) > 1
		h.tuned = h.tuned || fields[0] == "Validator" || operator && len(fields) > 2 && !strings.HasPrefix(fields[2], "- {")
	}
	return h
}

func (h head) contains(word string) bool { return strings.Contains(h.text, word) }

func (h head) hasColumns(names ...string) bool {
	return slices.ContainsFunc(h.rows, func(row []string) bool { return hasAll(row, names) })
}

// columns recognizes a file by the columns of a line.
func columns(names ...string) func(head) bool {
	return func(h head) bool { return h.hasColumns(names...) }
}

// matches recognizes a file by a line.
func matches(line func(string) bool) func(head) bool {
	return func(h head) bool { return slices.ContainsFunc(h.lines, line) }
}

// lines recognizes a file by how a line begins.
func lines(words ...string) func(head) bool {
	return matches(func(line string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(line, w) })
	})
}

func (h head) shapes() bool {
	if len(h.rows) == 0 || len(h.lines) == 0 || h.json || !hasAll(columnNames(cells(h.lines[0])), []string{"m", "n", "k"}) {
		return false
	}
	return !slices.ContainsFunc(h.rows[0], func(name string) bool {
		return slices.ContainsFunc(TimeColumns, func(c TimeColumn) bool { return c.Name == name })
	})
}

// TimeColumn is a name of the launch time in plain CSVs, with its unit in microseconds.
type TimeColumn struct {
	Name string
	Unit float64
}

// TimeColumns are these names. The first in a file counts.
var TimeColumns = func() []TimeColumn {
	out := []TimeColumn{{"us", 1}, {"ms", 1e3}, {"seconds", 1e6}}
	for _, u := range []TimeColumn{{"us", 1}, {"ms", 1e3}, {"s", 1e6}} {
		for _, what := range []string{"time", "latency", "duration", "avg_time", "mean_time", "median_time", "avg", "mean", "median"} {
			out = append(out, TimeColumn{what + "_" + u.Name, u.Unit}, TimeColumn{what + " (" + u.Name + ")", u.Unit})
		}
	}
	return out
}()

func hasAll(row, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(row, name) })
}

func trimMark(s string) string { return strings.TrimPrefix(s, "\ufeff") }

func printable(s string) bool {
	return len(s) <= maxText && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
