package producer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Tables that PyTorch prints for people.

var errNoShapes = errors.New("the table has no shapes: profile with record_shapes=True and print " +
	"key_averages(group_by_input_shape=True).table(row_limit=-1)")

// profileTable is a table of PyTorch's profiler. The line of dashes after the header gives the column
// positions; see _build_table in torch/autograd/profiler_util.py.
type profileTable struct{ name, calls, shapes span }

type span struct{ from, to int }

func (s span) of(line []rune) string {
	return strings.TrimSpace(string(line[min(s.from, len(line)):min(s.to, len(line))]))
}

// profileHeader reports whether a line is such a table's header.
func profileHeader(line string) bool {
	return strings.Contains(line, "Self CPU %") && strings.Contains(line, "# of Calls")
}

// dashes returns the columns of a line of dashes; nil for other lines.
func dashes(line []rune) (out []span) {
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == ' ':
		case line[i] != '-':
			return nil
		case i == 0 || line[i-1] == ' ':
			out = append(out, span{i, i + 1})
		default:
			out[len(out)-1].to = i + 1
		}
	}
	return out
}

func newProfileTable(header []rune, columns []span) (t profileTable, err error) {
	found := map[string]span{}
	for _, c := range columns {
		found[c.of(header)] = c
	}
	t = profileTable{found["Name"], found["# of Calls"], found["Input Shapes"]}
	if t.shapes == (span{}) {
		return t, errNoShapes
	}
	return t, nil
}

// readProfile reads a profile's table: products and how often each was computed, without types.
func readProfile(in io.Reader, take taker) error {
	var t *profileTable
	var columns []span
	return eachLine(in, func(line int, text string) error {
		runes := []rune(text)
		if c := dashes(runes); c != nil {
			columns = c
			return nil
		}
		if profileHeader(text) {
			found, err := newProfileTable(runes, columns)
			if err != nil {
				return err
			}
			t = &found
			return nil
		}
		if t == nil {
			return nil
		}
		places, ok := operators[t.name.of(runes)]
		if !ok {
			return nil
		}
		r, err := t.row(runes, places)
		return take.row(line, r, err)
	})
}

func (t *profileTable) row(line []rune, places [2]int) (Row, error) {
	var e event
	text := t.shapes.of(line)
	if err := json.Unmarshal([]byte(text), &e.Args.Dims); err != nil {
		return Row{}, errors.New("its shapes are cut short: print table(max_shapes_column_width=None)")
	}
	r, err := e.product(places)
	if err != nil {
		return r, err
	}
	if r.Calls, err = strconv.Atoi(t.calls.of(line)); err != nil || r.Calls < 1 {
		return r, errors.New("its number of calls is no count")
	}
	return r, nil
}

var (
	// compareLabel is the first line of a torch.utils.benchmark.Compare table, "[------ mm ------]", and
	// compareThreads the line before rows; see torch/utils/benchmark/utils/compare.py.
	compareLabel   = regexp.MustCompile(`^\[-+ (.*) -+\]$`)
	compareThreads = regexp.MustCompile(`^(\d+) threads: -*$`)
	compareUnit    = regexp.MustCompile(`^Times are in \w+ \((ns|us|ms|s)\)\.$`)
	colourCode     = regexp.MustCompile("\x1b\\[[0-9;]*m")
)

// readCompare reads tables of torch.utils.benchmark.Compare. Labels are free text: rows that do not name m, n
// and k are skipped.
func readCompare(in io.Reader, take taker) error {
	var label, threads string
	var columns []string
	var rows []Row
	return eachLine(in, func(line int, text string) error {
		text = strings.TrimRight(colourCode.ReplaceAllString(text, ""), " ")
		if m := compareLabel.FindStringSubmatch(text); m != nil {
			label, threads, columns, rows = m[1], "", nil, nil
			return nil
		}
		if m := compareThreads.FindStringSubmatch(text); m != nil {
			threads = m[1]
			return nil
		}
		if m := compareUnit.FindStringSubmatch(text); m != nil {
			for _, r := range rows {
				if r.Out == "" {
					r.US *= unitUS[m[1]]
				}
				if err := take(r); err != nil {
					return err
				}
			}
			columns, rows = nil, nil
			return nil
		}
		cells := strings.Split(text, "  |  ")
		switch {
		case label == "" || len(cells) < 2:
		case threads == "":
			columns = cells[1:]
		default:
			for i, cell := range cells[1:] {
				if i >= len(columns) || strings.TrimSpace(cell) == "" {
					continue
				}
				r, err := compareRow(label, cells[0], columns[i], cell, threads)
				if err != nil {
					r = Row{Out: err.Error()}
				}
				if r.Line = line; len(rows) >= maxKept {
					return fmt.Errorf("more than %d rows in a table", maxKept)
				}
				rows = append(rows, r)
			}
		}
		return nil
	})
}

// compareRow reads a cell. The kernel is the column's name unless it names sizes, otherwise the row's,
// otherwise the label.
func compareRow(label, row, column, cell, threads string) (Row, error) {
	r := Row{}
	r.Subject.Layout = kernels.Transposed
	texts := []string{column, row, label}
	sizes := sizeWords(strings.ToLower(strings.Join(texts, " ")))
	r.M, r.Subject.N, r.Subject.K = sizes["m"], sizes["n"], sizes["k"]
	if min(r.M, r.Subject.N, r.Subject.K) < 1 {
		return r, errors.New("its labels do not name the sizes: give Timer sub_label=\"m=16 n=4096 k=4096\" and the kernel as description")
	}
	for _, text := range texts {
		var words []string
		for _, word := range strings.FieldsFunc(sizeWord.ReplaceAllString(strings.ToLower(text), " "),
			func(c rune) bool { return strings.ContainsRune(" ,;()", c) }) {
			if d, err := dtypeOf(word); err != nil {
				words = append(words, word)
			} else if r.Subject.DType == "" {
				r.Subject.DType = d
			} else if r.Subject.DType != d {
				return r, errMixed
			}
		}
		if r.Kernel == "" {
			r.Kernel = strings.Join(words, "-")
		}
	}
	if threads != "1" {
		r.Kernel += "+" + threads + "threads"
	}
	cell = strings.TrimSpace(cell)
	cell, _, _ = strings.Cut(cell, " ") // "12.3 (! 14%)"
	us, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		return r, errNoTime
	}
	r.US = us // in the unit at the table's end
	return r, nil
}

// isCompare reports whether a file begins with such a table.
func isCompare(h head) bool {
	matches := func(of *regexp.Regexp) bool {
		return slices.ContainsFunc(h.lines, func(line string) bool { return of.MatchString(colourCode.ReplaceAllString(line, "")) })
	}
	return matches(compareLabel) && matches(compareThreads)
}
