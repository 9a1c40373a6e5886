package export

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/gemmaudit/gemmaudit/results"
)

type sink interface {
	write(e *Line) error
	close() error
}

func newSink(format Format, w io.Writer, r *results.Run) (sink, error) {
	switch format {
	case FormatCSV, FormatSpreadsheet:
		s := &csvSink{w: csv.NewWriter(w), spreadsheet: format == FormatSpreadsheet}
		return s, s.w.Write(SamplesColumns)
	case FormatJSONL:
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return jsonSink{e}, nil
	case FormatParquet:
		options, err := parquetMeta(r)
		if err != nil {
			return nil, err
		}
		return &parquetSink{w: parquet.NewGenericWriter[Line](w, append(options, parquet.Compression(&parquet.Zstd))...)}, nil
	}
	_, err := ParseFormat(string(format))
	return nil, err
}

// SpreadsheetCell returns a CSV cell, prefixed with an apostrophe if a spreadsheet would run it as a formula.
// Numbers stay unchanged.
func SpreadsheetCell(s string) string {
	start := strings.TrimLeftFunc(s, unicode.IsSpace)
	first, _ := utf8.DecodeRuneInString(start)
	if start == "" || !strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20", first) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

func withoutControls(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return strings.Map(func(r rune) rune {
				if unicode.IsControl(r) {
					return -1
				}
				return r
			}, s)
		}
	}
	return s
}

type csvSink struct {
	w           *csv.Writer
	cells       []string
	spreadsheet bool
}

func (s *csvSink) write(e *Line) error {
	s.cells = e.cells(s.cells)
	for i, cell := range s.cells {
		cell = withoutControls(cell)
		if s.spreadsheet {
			cell = SpreadsheetCell(cell)
		}
		s.cells[i] = cell
	}
	return s.w.Write(s.cells)
}

func (s *csvSink) close() error {
	s.w.Flush()
	return s.w.Error()
}

type jsonSink struct{ e *json.Encoder }

func (s jsonSink) write(e *Line) error { return s.e.Encode(e) }
func (s jsonSink) close() error        { return nil }

const parquetBatch = 1024

type parquetSink struct {
	w     *parquet.GenericWriter[Line]
	batch []Line
}

func (s *parquetSink) write(e *Line) error {
	if s.batch = append(s.batch, *e); len(s.batch) < parquetBatch {
		return nil
	}
	return s.flush()
}

func (s *parquetSink) flush() error {
	_, err := s.w.Write(s.batch)
	s.batch = s.batch[:0]
	return err
}

func (s *parquetSink) close() error {
	if err := s.flush(); err != nil {
		return err
	}
	return s.w.Close()
}
