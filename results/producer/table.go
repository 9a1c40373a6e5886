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
	err   error // the first of the line's cells; after it cells read as zeros
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
func readTable(in io.Reader, need []string, take taker, row func(t *table) (Row, error), other func(text string)) error {
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
		t.cells, t.err = fields, nil
		if len(fields) > len(t.names) || len(fields) < len(t.names)/2 {
			return take(Row{Line: line, Out: "it has another number of cells than the header"})
		}
		r, err := row(t)
		if t.err != nil {
			err = t.err
		}
		return take.row(line, r, err)
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

func (t *table) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// needed returns the text of a cell that must not be empty.
func (t *table) needed(names ...string) string {
	s := t.cell(names...)
	if s == "" {
		t.fail(&badCell{names[0], "is missing"})
	}
	return s
}

// size reads an integer of at least 1.
func (t *table) size(names ...string) int {
	s := t.needed(names...)
	// Some table libraries write integers as "256.000000".
	if whole, zeros, ok := strings.Cut(s, "."); ok && strings.Trim(zeros, "0") == "" {
		s = whole
	}
	n, ok := parseSize(s)
	if !ok {
		t.fail(&badCell{names[0], "is no size"})
	}
	return n
}

// count reads an integer, absent if missing.
func (t *table) count(absent int, names ...string) int {
	if t.cell(names...) == "" {
		return absent
	}
	n, err := strconv.ParseInt(t.cell(names...), 10, 64)
	if err != nil || n < 0 || n > maxSize*maxSize {
		t.fail(&badCell{names[0], "is no count"})
	}
	return int(min(n, math.MaxInt32))
}

func (t *table) microseconds(scale float64, names ...string) float64 {
	us, ok := parseUS(t.needed(names...), scale)
	if !ok {
		t.fail(&badCell{names[0], "is no time"})
	}
	return us
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

func (t *table) sizes() (m, n, k int) { return t.size("m"), t.size("n"), t.size("k") }

// batch reads the number of products of a launch into the subject, if they are several.
func (t *table) batch(s *kernels.Subject, names ...string) {
	if n := t.count(1, names...); n > 1 {
		s.Products = n
	}
}

// layout reads the weights' layout, if the table has it.
func (t *table) layout(r *Row) {
	if l := t.cell("layout"); l != "" {
		var err error
		if r.Subject.Layout, err = kernels.ParseLayout(l); err != nil {
			t.fail(errLayout)
		}
		r.LayoutKnown = true
	}
}

// dtype reads a type by the program's name. An empty cell is no type and no error.
func (t *table) dtype(names ...string) kernels.DType {
	s := t.cell(names...)
	if s == "" {
		return ""
	}
	d, err := dtypeOf(s)
	if err != nil {
		t.fail(err)
	}
	return d
}
