package report

import (
	"fmt"
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

// GateFormats lists the formats of [gate.Checks].
func GateFormats() []Format { return []Format{JUnit, SARIF, GitHub} }

// ForGate reports whether f is in [GateFormats].
func (f Format) ForGate() bool { return f == JUnit || f == SARIF || f == GitHub }

// Formats lists the formats in the order of help texts.
func Formats() []Format { return []Format{Table, Wide, JSON, JSONL, CSV, Markdown, Bench} }

// TextFormats lists the formats that hold all data; Bench holds only timings.
func TextFormats() []Format { return []Format{Table, Wide, JSON, JSONL, CSV, Markdown} }

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
