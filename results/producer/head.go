package producer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// head is the beginning of a file.
type head struct {
	text  string
	lines []string
	rows  [][]string // lines as cells, in lower case
	// json says that the file begins as JSON.
	json bool
	// tunableOp says that a line is one of TunableOp's, and tuned that one names a solution.
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
		// A header may follow in files of other programs; TunableOp's have none.
		h.tunableOp = h.tunableOp || i == 0 && (operator || fields[0] == "Validator") || operator && len(fields) > 1
		h.tuned = h.tuned || fields[0] == "Validator" || operator && len(fields) > 2 && !strings.HasPrefix(fields[2], "- {")
	}
	return h
}

func (h head) contains(word string) bool { return strings.Contains(h.text, word) }

// hasLine says whether a line begins with one of words.
func (h head) hasLine(words ...string) bool {
	return slices.ContainsFunc(h.lines, func(line string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(line, w) })
	})
}

// hasColumns says whether a line is a header with the columns.
func (h head) hasColumns(names ...string) bool {
	return slices.ContainsFunc(h.rows, func(row []string) bool { return hasAll(row, names) })
}

// shapes says whether the first line names sizes and no time.
func (h head) shapes() bool {
	if len(h.rows) == 0 || len(h.lines) == 0 || h.json || !hasAll(columnNames(cells(h.lines[0])), []string{"m", "n", "k"}) {
		return false
	}
	return !slices.ContainsFunc(h.rows[0], func(name string) bool { return slices.Contains(timeColumns, name) })
}

// timeColumns are the names that a time of a launch has in plain CSVs.
var timeColumns = []string{"us", "ms", "seconds"}

func hasAll(row, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(row, name) })
}

// trimMark removes the byte order mark that editors put in front.
func trimMark(s string) string { return strings.TrimPrefix(s, "\ufeff") }

// printable says whether a name can be stored and printed.
func printable(s string) bool {
	return len(s) <= maxText && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
