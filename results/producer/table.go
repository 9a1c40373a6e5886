package producer

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// table is a line under a header, in files that may also contain other text.
type table struct {
	names []string       // in lower case
	at    map[string]int // the first column of a name
	cells []string
	line  int
}

func cells(line string) []string {
	if !strings.Contains(line, `"`) {
		return strings.Split(line, ",")
	}
	r := csv.NewReader(strings.NewReader(line))
	r.LazyQuotes, r.FieldsPerRecord = true, -1
	row, err := r.Read()
	if err != nil {
		return strings.Split(line, ",")
	}
	return row
}

// columnNames converts cells to column names. Benchmarks put "[0]:" before the first.
func columnNames(row []string) []string {
	names := make([]string, len(row))
	for i, c := range row {
		c = strings.TrimSpace(c)
		if _, rest, ok := strings.Cut(c, "]"); ok && i == 0 && strings.HasPrefix(c, "[") {
			c = strings.TrimPrefix(rest, ":")
		}
		names[i] = strings.ToLower(strings.TrimSpace(c))
	}
	return names
}

// readTable passes each line under a header with the columns need to row. Headers may be anywhere and repeat.
// A line that does not fit the header is skipped. Lines without commas are passed to other.
func readTable(in io.Reader, need []string, take func(Row) error, row func(t *table) (Row, error), other func(text string)) error {
	t := &table{}
	return eachLine(in, func(line int, text string) error {
		text = strings.TrimSpace(text)
		if !strings.Contains(text, ",") || strings.HasPrefix(text, "--") {
			if other != nil && t.names != nil {
				other(text)
			}
			return nil
		}
		fields := cells(text)
		if names := columnNames(fields); hasAll(names, need) {
			t.header(names)
			return nil
		}
		if t.names == nil {
			return nil
		}
		t.cells, t.line = fields, line
		if len(fields) > len(t.names) || len(fields) < len(t.names)/2 {
			return take(Row{Line: line, Out: "it has another number of cells than the header"})
		}
		r, err := row(t)
		if err != nil {
			r = Row{Out: err.Error()}
		}
		r.Line = line
		return take(r)
	})
}

func (t *table) header(names []string) {
	t.names, t.at = names, map[string]int{}
	for i, name := range names {
		if _, twice := t.at[name]; !twice {
			t.at[name] = i
		}
	}
}

func (t *table) has(name string) bool { _, ok := t.at[name]; return ok }

// cell returns the text in the first column that exists and is not empty.
func (t *table) cell(names ...string) string {
	for _, name := range names {
		if i, ok := t.at[name]; ok && i < len(t.cells) {
			if s := strings.TrimSpace(t.cells[i]); s != "" {
				return s
			}
		}
	}
	return ""
}

// badCell is a reason for skipping a row: one column.
type badCell struct{ column, reason string }

func (e *badCell) Error() string { return "column " + e.column + " " + e.reason }

// size reads an integer of at least 1.
func (t *table) size(names ...string) (int, error) {
	s := t.cell(names...)
	if s == "" {
		return 0, &badCell{names[0], "is missing"}
	}
	// Some table libraries write integers as "256.000000".
	if whole, zeros, ok := strings.Cut(s, "."); ok && strings.Trim(zeros, "0") == "" {
		s = whole
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > maxSize {
		return 0, &badCell{names[0], "is no size"}
	}
	return int(n), nil
}

// count reads an integer, absent if missing.
func (t *table) count(absent int, names ...string) (int, error) {
	if t.cell(names...) == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(t.cell(names...), 10, 64)
	if err != nil || n < 0 || n > maxSize*maxSize {
		return 0, &badCell{names[0], "is no count"}
	}
	return int(min(n, math.MaxInt32)), nil
}

func (t *table) microseconds(scale float64, names ...string) (float64, error) {
	s := t.cell(names...)
	if s == "" {
		return 0, &badCell{names[0], "is missing"}
	}
	us, ok := parseUS(s, scale)
	if !ok {
		return 0, &badCell{names[0], "is no time"}
	}
	return us, nil
}

// leastUS and mostUS limit a launch's time, as in package results.
const leastUS, mostUS = 1e-6, 1e15

// unitUS is a unit of time in microseconds.
var unitUS = map[string]float64{"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}

func parseUS(s string, scale float64) (us float64, ok bool) {
	x, err := strconv.ParseFloat(s, 64)
	us = x * scale
	return us, err == nil && us >= leastUS && us <= mostUS
}

func (t *table) sizes() (m, n, k int, err error) {
	if m, err = t.size("m"); err != nil {
		return
	}
	if n, err = t.size("n"); err != nil {
		return
	}
	k, err = t.size("k")
	return
}

// dtype reads a type by the program's name. An empty cell is no type and no error.
func (t *table) dtype(names ...string) (kernels.DType, error) {
	s := t.cell(names...)
	if s == "" {
		return "", nil
	}
	return dtypeOf(s)
}
