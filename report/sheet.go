package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Align says to which side of its column a text is moved.
type Align int

// The alignments.
const (
	Left Align = iota
	Right
)

// Column is one column of a [Sheet].
type Column struct {
	Name  string // header for people: "time us"
	Key   string // header for machines, with the unit: "time_us"
	Align Align
	Wide  bool // only in the wide format, CSV and machine formats
	Data  bool // only in CSV
	Flex  bool // wraps when the terminal is too narrow
	// Interval marks columns of intervals: CSV then has Key, Key_lo and Key_hi.
	Interval bool
	// Hoist moves the column into the title when all rows agree and the format
	// is narrow; with HoistName the value follows the column's name there.
	Hoist, HoistName bool
}

// Sheet is one table.
type Sheet struct {
	Title   string
	Columns []Column
	// Record says what a row is, where a document's CSV holds several sheets: a word in
	// its first column.
	Record string
	// Rows hold one value a column: a [Cell], a string, a number, a bool or nil.
	Rows [][]any
}

// Document is what a command prints: sheets for people and a typed value for
// machines, which of the two is used depends on the format.
type Document struct {
	// Subject names the document in errors: "devices".
	Subject string
	// Head and Notes are lines before and after the sheets, for people only.
	Head, Notes []Note
	Sheets      []Sheet
	// Main is the index of the sheet that CSV holds, unless sheets name their records:
	// then it holds all of those, in one table with the columns of all.
	Main int
	// Value is the whole result for JSON, Items its elements for JSONL; Value
	// alone is one line of JSONL.
	Value any
	Items []any
	// Bench writes Go's benchmark format; nil when there are no timings.
	Bench func(io.Writer) error
}

// Note is a line of text with a meaning.
type Note struct {
	Text string
	Tone Tone
}

// line is the note as text shows it.
func (n Note) line() string {
	if n.Tone == Warned {
		return "warning: " + n.Text
	}
	return n.Text
}

// Render writes the document in format f. What w can show is decided by w, see
// [NewStream]. Errors are those of w, or an [*UnsupportedFormat].
func (d *Document) Render(w io.Writer, f Format) error {
	buffered := bufio.NewWriter(w)
	if err := d.render(buffered, f, styleOf(w)); err != nil {
		return err
	}
	return buffered.Flush()
}

func (d *Document) render(w *bufio.Writer, f Format, st Style) error {
	switch f {
	case Table, Wide:
		return d.text(w, f == Wide, st)
	case Markdown:
		return d.markdown(w)
	case JSON:
		return wrapJSON(d.Subject, writeJSON(w, d.Value))
	case JSONL:
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		items := d.Items
		if items == nil && d.Value != nil {
			items = []any{d.Value}
		}
		for _, item := range items {
			if err := enc.Encode(item); err != nil {
				return wrapJSON(d.Subject, err)
			}
		}
		return nil
	case CSV:
		if all := d.records(); len(all.Columns) > 0 {
			return all.csv(w, st.Spreadsheet)
		}
		if d.Main >= len(d.Sheets) {
			return &UnsupportedFormat{CSV, d.Subject, "it is not a table"}
		}
		return d.Sheets[d.Main].csv(w, st.Spreadsheet)
	case Bench:
		if d.Bench == nil {
			return &UnsupportedFormat{Bench, d.Subject, "it holds no timings"}
		}
		return d.Bench(w)
	case JUnit, SARIF, GitHub:
		return &UnsupportedFormat{f, d.Subject, "no gate looks at it"}
	}
	_, err := ParseFormat(string(f))
	return err
}

func wrapJSON(subject string, err error) error {
	if err != nil {
		return fmt.Errorf("write %s as JSON: %w", subject, err)
	}
	return nil
}

// shown are the sheets with something for people in them.
func (d *Document) shown() []Sheet {
	var out []Sheet
	for _, s := range d.Sheets {
		if len(s.Rows) > 0 && slices.ContainsFunc(s.Columns, func(c Column) bool { return !c.Data }) {
			out = append(out, s)
		}
	}
	return out
}

// text writes the document for people.
func (d *Document) text(w *bufio.Writer, wide bool, st Style) error {
	for _, n := range d.Head {
		fmt.Fprintln(w, paint(forTerminal(n.line(), st.Unicode), n.Tone, st))
	}
	for i, s := range d.shown() {
		if i > 0 || len(d.Head) > 0 {
			fmt.Fprintln(w)
		}
		if err := s.text(w, wide, st); err != nil {
			return err
		}
	}
	if len(d.Notes) > 0 && (len(d.Sheets) > 0 || len(d.Head) > 0) {
		fmt.Fprintln(w)
	}
	for _, n := range d.Notes {
		fmt.Fprintln(w, paint(forTerminal(n.line(), st.Unicode), n.Tone, st))
	}
	return nil
}

// markdown writes the document as a part of a Markdown page.
func (d *Document) markdown(w *bufio.Writer) error {
	for _, n := range d.Head {
		fmt.Fprintf(w, "%s\n\n", lineMarkdown(n.line()))
	}
	for i, s := range d.shown() {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if title := s.heading(false); title != "" {
			fmt.Fprintf(w, "### %s\n\n", forMarkdown(title))
		}
		s.markdown(w, false)
	}
	for _, n := range d.Notes {
		fmt.Fprintf(w, "\n%s\n", lineMarkdown(n.line()))
	}
	return nil
}

// visible lists the indices of the columns to show: in the narrow form those
// that are neither wide nor hoisted, and never one whose cells are all empty.
func (s *Sheet) visible(wide bool) []int {
	var out []int
	for i, c := range s.Columns {
		if c.Data || !wide && (c.Wide || s.hoisted(i)) {
			continue
		}
		for _, row := range s.Rows {
			if i < len(row) && toCell(row[i]).Text() != "" {
				out = append(out, i)
				break
			}
		}
	}
	return out
}

// hoisted says whether column i stands in the title: it may, and its rows agree.
func (s *Sheet) hoisted(i int) bool {
	if !s.Columns[i].Hoist || len(s.Rows) == 0 {
		return false
	}
	for _, row := range s.Rows {
		if i >= len(row) || toCell(row[i]).Text() != toCell(s.Rows[0][i]).Text() {
			return false
		}
	}
	return true
}

// heading is the sheet's title followed by what was hoisted into it.
func (s *Sheet) heading(wide bool) string {
	var words []string
	if s.Title != "" {
		words = append(words, s.Title)
	}
	for i, c := range s.Columns {
		if wide || !s.hoisted(i) {
			continue
		}
		value := toCell(s.Rows[0][i]).Text()
		if c.HoistName {
			value = c.Name + value
		}
		if value != "" {
			words = append(words, value)
		}
	}
	if s.Title != "" && len(words) > 1 {
		words[0] += ":"
	}
	return strings.Join(words, " ")
}

// text writes one sheet for a terminal or a plain file.
func (s *Sheet) text(w io.Writer, wide bool, st Style) error {
	cols := s.visible(wide)
	if title := s.heading(wide); title != "" {
		fmt.Fprintln(w, bold(forTerminal(title, st.Unicode), st))
	}
	t := table.NewWriter()
	style := table.StyleDefault
	if st.Unicode {
		style = table.StyleLight
	}
	style.Options = table.Options{SeparateHeader: true, SeparateColumns: false}
	// One blank on both sides of a separator that is not drawn leaves two
	// between columns.
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	style.Format.HeaderAlign = text.AlignDefault
	t.SetStyle(style)

	header := make(table.Row, len(cols))
	configs := make([]table.ColumnConfig, len(cols))
	widths := make([]int, len(cols))
	for i, c := range cols {
		name := forTerminal(s.Columns[c].Name, st.Unicode)
		header[i] = bold(name, st)
		widths[i] = text.StringWidthWithoutEscSequences(name)
	}
	rows := make([]table.Row, len(s.Rows))
	for r, row := range s.Rows {
		rows[r] = make(table.Row, len(cols))
		for i, c := range cols {
			value, tone := "", Neutral
			if c < len(row) {
				cell := toCell(row[c])
				value = forTerminal(cell.Text(), st.Unicode)
				if toned, ok := cell.(interface{ Tone() Tone }); ok {
					tone = toned.Tone()
				}
			}
			widths[i] = max(widths[i], text.StringWidthWithoutEscSequences(value))
			rows[r][i] = paint(value, tone, st)
		}
	}
	flex := flexWidth(s.Columns, cols, widths, st.Width)
	for i, c := range cols {
		configs[i] = table.ColumnConfig{Number: i + 1, Align: text.AlignLeft, AlignHeader: text.AlignLeft}
		if s.Columns[c].Align == Right {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
		if s.Columns[c].Flex && flex > 0 {
			configs[i].WidthMax, configs[i].WidthMaxEnforcer = flex, text.WrapSoft
		}
	}
	t.SetColumnConfigs(configs)
	t.AppendHeader(header)
	t.AppendRows(rows)
	for line := range strings.SplitSeq(t.Render(), "\n") {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// flexWidth is the width that each wrapping column gets so that a row fits, 0
// for no limit.
func flexWidth(columns []Column, shown, widths []int, limit int) int {
	if limit <= 0 {
		return 0
	}
	used, flexible := 2*len(shown), 0
	for i, c := range shown {
		if columns[c].Flex {
			flexible++
		} else {
			used += widths[i]
		}
	}
	if flexible == 0 {
		return 0
	}
	// Below this a column of words becomes a column of letters.
	const least = 24
	return max(least, (limit-used)/flexible)
}

// markdown writes one sheet as a table of GitHub's Markdown.
func (s *Sheet) markdown(w io.Writer, wide bool) {
	cols := s.visible(wide)
	if len(cols) == 0 {
		return
	}
	line := func(cell func(col int) string) {
		io.WriteString(w, "|")
		for _, c := range cols {
			fmt.Fprintf(w, " %s |", cell(c))
		}
		io.WriteString(w, "\n")
	}
	line(func(c int) string { return forMarkdown(s.Columns[c].Name) })
	line(func(c int) string {
		if s.Columns[c].Align == Right {
			return "---:"
		}
		return "---"
	})
	for _, row := range s.Rows {
		line(func(c int) string {
			if c >= len(row) {
				return ""
			}
			cell := toCell(row[c])
			if _, ok := cell.(code); ok {
				return markdownCode(cell.Text())
			}
			return forMarkdown(cell.Text())
		})
	}
}
