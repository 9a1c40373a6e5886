package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Format is an output format.
type Format string

// The formats, as named on the command line.
const (
	Table    Format = "table"    // for people: the columns that fit a terminal
	Wide     Format = "wide"     // for people: every column
	JSON     Format = "json"     // one document with the typed result
	JSONL    Format = "jsonl"    // one typed object a line
	CSV      Format = "csv"      // RFC 4180 quoting, LF line ends, raw numbers
	Markdown Format = "markdown" // GitHub's tables
	Bench    Format = "bench"    // Go's benchmark format, read by benchstat

	// Formats of gates, for pipelines: see [gate.Checks].
	JUnit  Format = "junit"  // JUnit's XML
	SARIF  Format = "sarif"  // SARIF 2.1.0
	GitHub Format = "github" // workflow commands, shown by GitHub as annotations
)

// formatEntry is everything about a format.
type formatEntry struct {
	name Format
	holds
	write func(*Document, *bufio.Writer, Style) error
}

// holds is what a format holds.
type holds int

const (
	allData holds = iota
	timings
	gateCases // see [gate.Checks]
)

// formatTable lists the formats in the order of help texts; [DefineFormat] adds others.
var formatTable = []formatEntry{
	{Table, allData, func(d *Document, w *bufio.Writer, st Style) error { return d.text(w, false, st) }},
	{Wide, allData, func(d *Document, w *bufio.Writer, st Style) error { return d.text(w, true, st) }},
	{JSON, allData, func(d *Document, w *bufio.Writer, _ Style) error { return wrapJSON(d.Subject, writeJSON(w, d.Value)) }},
	{JSONL, allData, func(d *Document, w *bufio.Writer, _ Style) error { return wrapJSON(d.Subject, d.jsonl(w)) }},
	{CSV, allData, func(d *Document, w *bufio.Writer, st Style) error { return d.csv(w, st.Spreadsheet) }},
	{Markdown, allData, func(d *Document, w *bufio.Writer, _ Style) error { return d.markdown(w) }},
	{Bench, timings, func(d *Document, w *bufio.Writer, _ Style) error { return d.bench(w) }},
	{JUnit, gateCases, notGated(JUnit)},
	{SARIF, gateCases, notGated(SARIF)},
	{GitHub, gateCases, notGated(GitHub)},
}

func notGated(f Format) func(*Document, *bufio.Writer, Style) error {
	return func(d *Document, _ *bufio.Writer, _ Style) error {
		return &UnsupportedFormat{f, d.Subject, "no gate looks at it"}
	}
}

// DefineFormat adds a format that holds all data; undefine removes it, and all that were added later. write gets each
// document of a command. Call it before commands are built: formats are not guarded against concurrent use.
func DefineFormat(f Format, write func(w io.Writer, d *Document) error) (undefine func()) {
	n := len(formatTable)
	formatTable = append(formatTable[:n:n],
		formatEntry{f, allData, func(d *Document, w *bufio.Writer, _ Style) error { return write(w, d) }})
	return func() { formatTable = formatTable[:n:n] }
}

func formatsThat(hold ...holds) []Format {
	var out []Format
	for _, e := range formatTable {
		if slices.Contains(hold, e.holds) {
			out = append(out, e.name)
		}
	}
	return out
}

// GateFormats lists the formats of [gate.Checks].
func GateFormats() []Format { return formatsThat(gateCases) }

// ForGate reports whether f is in [GateFormats].
func (f Format) ForGate() bool { return slices.Contains(GateFormats(), f) }

// Formats lists the formats in the order of help texts.
func Formats() []Format { return formatsThat(allData, timings) }

// TextFormats lists the formats that hold all data; Bench holds only timings.
func TextFormats() []Format { return formatsThat(allData) }

// ParseFormat reads a format by name. The error lists the valid names.
func ParseFormat(s string) (Format, error) {
	var names []string
	for _, f := range append(Formats(), GateFormats()...) {
		if strings.EqualFold(strings.TrimSpace(s), string(f)) {
			return f, nil
		}
		names = append(names, string(f))
	}
	return "", fmt.Errorf("unknown format %q: expected one of %s", s, strings.Join(names, ", "))
}

// UnsupportedFormat is the error for data that a format cannot represent.
type UnsupportedFormat struct {
	Format  Format
	Subject string // the kind of data: "devices"
	Reason  string
}

func (e *UnsupportedFormat) Error() string {
	return fmt.Sprintf("%s can't be printed as %s: %s", e.Subject, e.Format, e.Reason)
}
