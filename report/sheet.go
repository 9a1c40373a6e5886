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

	"github.com/gemmaudit/gemmaudit/rules/explain"
)

// Align is the alignment of a column's text.
type Align int

// The alignments.
const (
	Left Align = iota
	Right
)

// Column is one column of a [Sheet].
type Column struct {
	Name  string // header for people: "time us"
	Key   string // header for programs, with the unit: "time_us"
	Align Align
	Wide  bool // only in the wide format, CSV and JSON
	Data  bool // only in CSV
	Flex  bool // wraps if the terminal is too narrow
	// Keep shows the column on any terminal; other columns are dropped from the right until a row fits.
	Keep bool
	// Interval marks columns of intervals: CSV then has Key, Key_lo and Key_hi.
	Interval bool
	// Hoist moves the column into the title if all rows agree and the format is narrow. HoistName adds the
	// column's name.
	Hoist, HoistName bool
}

// Sheet is one table.
type Sheet struct {
	Title   string
	Columns []Column
	// Record names the kind of row in the first CSV column, for documents whose CSV holds several sheets.
	Record string
	// Rows hold one value per column: a [Cell], a string, a number, a bool or nil.
	Rows [][]any
}

// Document is the output of a command: sheets for people and a typed value for programs. The format selects
// which one.
type Document struct {
	// Subject names the document in errors: "devices".
	Subject string
	// Head and Notes are lines before and after the sheets, for people only.
	Head, Notes []Note
	Sheets      []Sheet
	// Main is the index of the sheet in CSV. If sheets have a Record, CSV holds all of those in one table
	// with the columns of all.
	Main int
	// Value is the whole result for JSON, Items its elements for JSONL. Without Items, JSONL is Value in one
	// line.
	Value any
	Items []any
	// Bench writes Go's benchmark format; nil if there are no timings.
	Bench func(io.Writer) error
}

// items returns the elements for JSONL; none are an empty list, which prints no line.
func items[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

// Note is a line of text with a tone.
type Note struct {
	Text string
	Tone Tone
}

// Notef formats a note.
func Notef(tone Tone, format string, args ...any) Note {
	return Note{fmt.Sprintf(format, args...), tone}
}

// Note adds a line after the sheets.
func (d *Document) Note(tone Tone, format string, args ...any) {
	d.Notes = append(d.Notes, Notef(tone, format, args...))
}

func (n Note) line() string {
	if n.Tone == Warned {
		return "warning: " + n.Text
	}
	return n.Text
}

// Render writes the document in format f; [NewStream] decides what w can show. Errors come from w, or are
// [*UnsupportedFormat].
func (d *Document) Render(w io.Writer, f Format) error {
	buffered := bufio.NewWriter(w)
	if err := d.render(buffered, f, StyleOf(w)); err != nil {
		return err
	}
	return buffered.Flush()
}

func (d *Document) render(w *bufio.Writer, f Format, st Style) error {
	for _, e := range formatTable {
		if e.name == f {
			return e.write(d, w, st)
		}
	}
	_, err := ParseFormat(string(f))
	return err
}

// jsonl writes the elements, one a line.
func (d *Document) jsonl(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	items := d.Items
	if items == nil && d.Value != nil {
		items = []any{d.Value}
	}
	for _, item := range items {
		if err := enc.Encode(item); err != nil {
			return err
		}
	}
	return nil
}

// csv writes the records, or the main sheet.
func (d *Document) csv(w *bufio.Writer, spreadsheet bool) error {
	if all := d.records(); len(all.Columns) > 0 {
		return all.csv(w, spreadsheet)
	}
	if d.Main >= len(d.Sheets) {
		return &UnsupportedFormat{CSV, d.Subject, "it is not a table"}
	}
	return d.Sheets[d.Main].csv(w, spreadsheet)
}

// bench writes Go's benchmark format.
func (d *Document) bench(w io.Writer) error {
	if d.Bench == nil {
		return &UnsupportedFormat{Bench, d.Subject, "it holds no timings"}
	}
	return d.Bench(w)
}

func wrapJSON(subject string, err error) error {
	if err != nil {
		return fmt.Errorf("write %s as JSON: %w", subject, err)
	}
	return nil
}

func (d *Document) shown() []Sheet {
	var out []Sheet
	for _, s := range d.Sheets {
		if len(s.Rows) > 0 && slices.ContainsFunc(s.Columns, func(c Column) bool { return !c.Data }) {
			out = append(out, s)
		}
	}
	return out
}

func (d *Document) text(w *bufio.Writer, wide bool, st Style) error {
	limit := st.Limit()
	if wide {
		limit = st.Width
	}
	writeNotes(w, d.Head, limit, st)
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
	writeNotes(w, d.Notes, limit, st)
	return nil
}

// writeNotes prints notes, wrapped at limit columns; 0 is no limit.
func writeNotes(w io.Writer, notes []Note, limit int, st Style) {
	for _, n := range notes {
		lines := []string{ForTerminal(n.line(), st.Unicode)}
		if limit > 0 && n.Tone != Command && text.StringWidthWithoutEscSequences(lines[0]) > limit {
			lines = explain.Wrap(lines[0], limit)
		}
		for _, l := range lines {
			fmt.Fprintln(w, Paint(l, n.Tone, st))
		}
	}
}

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

// visible lists the indices of the shown columns. The narrow form omits wide and hoisted columns; both omit
// columns whose cells are all empty.
func (s *Sheet) visible(wide bool) []int {
	var out []int
	for i, c := range s.Columns {
		if c.Data || !wide && (c.Wide || s.hoisted(i)) {
			continue
		}
		if slices.ContainsFunc(s.Rows, func(row []any) bool { return toCell(row[i]).Text() != "" }) {
			out = append(out, i)
		}
	}
	return out
}

// hoisted reports whether column i moves into the title: it may, and its rows agree.
func (s *Sheet) hoisted(i int) bool {
	if !s.Columns[i].Hoist || len(s.Rows) == 0 {
		return false
	}
	first := toCell(s.Rows[0][i]).Text()
	return !slices.ContainsFunc(s.Rows, func(row []any) bool { return toCell(row[i]).Text() != first })
}

// heading is the sheet's title followed by the hoisted values.
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

func (s *Sheet) text(w io.Writer, wide bool, st Style) error {
	cols := s.visible(wide)
	if title := s.heading(wide); title != "" {
		fmt.Fprintln(w, bold(ForTerminal(title, st.Unicode), st))
	}
	cells, tones := s.cells(cols, st)
	limit := st.Width
	if !wide {
		limit = st.Limit()
		cols, cells, tones = s.fit(cols, cells, tones, st)
	}
	t := table.NewWriter()
	style := table.StyleDefault
	if st.Unicode {
		style = table.StyleLight
	}
	style.Options = table.Options{SeparateHeader: true, SeparateColumns: false}
	// The column separator is not drawn, so this padding puts two spaces between columns.
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	style.Format.HeaderAlign = text.AlignDefault
	t.SetStyle(style)

	header := make(table.Row, len(cols))
	for i := range cols {
		header[i] = bold(cells[0][i], st)
	}
	rows := make([]table.Row, len(s.Rows))
	for r := range s.Rows {
		rows[r] = make(table.Row, len(cols))
		for i := range cols {
			rows[r][i] = Paint(cells[r+1][i], tones[r+1][i], st)
		}
	}
	flex := flexWidth(s.Columns, cols, widths(cells), limit)
	configs := make([]table.ColumnConfig, len(cols))
	for i, c := range cols {
		configs[i] = table.ColumnConfig{Number: i + 1, Align: text.AlignLeft, AlignHeader: text.AlignLeft}
		if s.Columns[c].Align == Right {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
		if s.Columns[c].Flex && flex > 0 {
			configs[i].WidthMax, configs[i].WidthMaxEnforcer = flex, wrapCell
		}
	}
	t.SetColumnConfigs(configs)
	t.AppendHeader(header)
	t.AppendRows(rows)
	for line := range strings.SplitSeq(t.Render(), "\n") {
		if limit > 0 && strings.Trim(line, "-─") == "" { // the line below the header includes the last column's padding
			line = text.Trim(line, limit)
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sheet) cells(cols []int, st Style) (cells [][]string, tones [][]Tone) {
	cells, tones = make([][]string, len(s.Rows)+1), make([][]Tone, len(s.Rows)+1)
	for r := range cells {
		cells[r], tones[r] = make([]string, len(cols)), make([]Tone, len(cols))
	}
	for i, c := range cols {
		cells[0][i] = ForTerminal(s.Columns[c].Name, st.Unicode)
		for r, row := range s.Rows {
			cell := toCell(row[c])
			cells[r+1][i] = ForTerminal(cell.Text(), st.Unicode)
			if toned, ok := cell.(interface{ Tone() Tone }); ok {
				tones[r+1][i] = toned.Tone()
			}
		}
	}
	return cells, tones
}

func widths(cells [][]string) []int {
	out := make([]int, len(cells[0]))
	for _, row := range cells {
		for i, cell := range row {
			out[i] = max(out[i], text.StringWidthWithoutEscSequences(cell))
		}
	}
	return out
}

// flexWidth is the width of each wrapping column that makes a row fit, 0 for no limit.
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
	// Narrower columns break words into letters.
	const least = 24
	return max(least, (limit-used)/flexible)
}

// wrapCell wraps a cell at width columns. Its lines keep the indentation, which has a meaning in YAML. A word
// wider than the column is broken.
func wrapCell(cell string, width int) string {
	plain := strings.TrimLeft(cell, " ")
	indent := cell[:len(cell)-len(plain)]
	lines := text.WrapSoft(plain, max(1, width-len(indent)))
	return indent + strings.ReplaceAll(lines, "\n", "\n"+indent)
}

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
			cell := toCell(row[c])
			if _, ok := cell.(code); ok {
				return markdownCode(cell.Text())
			}
			return forMarkdown(cell.Text())
		})
	}
}
