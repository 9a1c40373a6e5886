package importing

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
	"github.com/gemmaudit/gemmaudit/results/parquetfile"
)

// maxRecordBytes is the longest line read. Without a limit, a file without lines, such as a device, would
// exhaust memory.
const maxRecordBytes = 1 << 20

var errLongRecord = fmt.Errorf("a line of more than %d bytes", maxRecordBytes)

// recordReader fails if a record takes more than maxRecordBytes from in.
type recordReader struct {
	in   io.Reader
	read int // since the last record ended
}

func (r *recordReader) Read(b []byte) (int, error) {
	if r.read > maxRecordBytes {
		return 0, errLongRecord
	}
	n, err := r.in.Read(b)
	r.read += n
	return n, err
}

// mostCellTexts limits the texts of cells that are kept; later ones rarely repeat.
const mostCellTexts = 1 << 16

// csvFile reads a CSV line by line and describes its errors.
type csvFile struct {
	path   string
	r      *csv.Reader
	bound  *recordReader
	names  []string       // of the header, lower case
	at     map[string]int // column by name
	record []string
	line   int
	// notes are sentences on how the file was read: options that override the file, and assumptions.
	notes []string
	words map[string]string // of text cells
}

func (p *parsed) file(ctx context.Context, path string, opt Options) error {
	f, err := regular.Open(path)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer f.Close()
	return p.read(ctx, path, f, opt)
}

func (p *parsed) read(ctx context.Context, path string, in io.Reader, opt Options) error {
	found, err := recognize(path, in)
	if err != nil {
		return err
	}
	var f *csvFile
	if found.format != nil {
		f = &csvFile{path: path}
	} else if f, err = newCSVFile(path, found.in); err != nil {
		return err
	}
	defer func() {
		for _, s := range f.notes {
			p.warnings = append(p.warnings, path+": "+s)
		}
	}()
	for _, d := range []struct {
		name  string
		value int
	}{{"N", opt.N}, {"K", opt.K}} {
		if d.value > results.MaxDimension {
			return &Error{Path: path,
				Reason: fmt.Sprintf("%s is given as %d, above %d", d.name, d.value, int64(results.MaxDimension))}
		}
	}
	before := p.lines
	err = p.parallel(ctx, func() error {
		if found.format != nil {
			return p.produced(f, found, opt)
		}
		return p.kind(f, opt)
	})
	if err != nil {
		return err
	}
	p.end(p.lines - before)
	if last := p.imported[len(p.imported)-1]; last.Rows == 0 && len(last.LeftOut) == 0 {
		return &Error{Path: path, Reason: "there is no line after the header"}
	}
	return nil
}

func (p *parsed) kind(f *csvFile, opt Options) error {
	switch {
	case f.has("batch") && f.has("kernel_time"):
		p.begin(f.path, publishedFormat)
		return p.published(f, opt)
	case f.has("m") && f.time().name != "":
		p.begin(f.path, samplesFormat)
		return p.samples(f, opt)
	}
	return &Error{
		Path: f.path, Line: 1,
		Reason: fmt.Sprintf("the header is %.200q, expected columns batch and kernel_time (a published sweep) or m and us (a samples CSV)",
			strings.Join(f.names, ",")),
		Hint: formatsHint,
	}
}

// Lines pass from the parsing to the storing goroutine in batches, a few at a time.
const (
	batchLines = 1024
	batchesOut = 4
)

// parallel runs read, which parses a file, while earlier lines are stored. Of several errors it returns the earliest
// line's.
func (p *parsed) parallel(ctx context.Context, read func() error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan []record, batchesOut)
	free := make(chan []record, batchesOut+2)
	for range cap(free) {
		free <- nil // allocated on first use
	}
	p.batch = <-free
	p.give = func(full []record) ([]record, error) {
		batches <- full
		return (<-free)[:0], ctx.Err()
	}
	var parse error
	go func() {
		defer close(batches)
		parse = read()
		// Lines before a bad one may hold an earlier error.
		batches <- p.batch
	}()
	p.store.begin()
	var store error
	for batch := range batches {
		if store == nil {
			if store = p.store.take(batch); store != nil {
				cancel()
			}
		}
		free <- batch
	}
	if store != nil {
		return store
	}
	if parse == nil {
		p.imported[len(p.imported)-1].Repeated = p.store.repeated
	}
	return parse
}

func (p *parsed) emit(rec record) error {
	p.lines++
	p.batch = append(p.batch, rec)
	if len(p.batch) < batchLines {
		return nil
	}
	var err error
	p.batch, err = p.give(p.batch)
	return err
}

const sniffBytes = 512

const convertHint = "convert it to CSV; `gemmaudit export RUN.db --format csv` writes a run of ours as one, and `gemmaudit merge` joins " +
	"runs as they are"

// foreignForms are formats other than CSV by their first bytes.
var foreignForms = []struct{ start, name string }{
	{"PAR1", "Parquet"},
	{"SQLite format 3\x00", "a database, such as a run"},
	{"\x1f\x8b", "compressed by gzip"},
	{"\x28\xb5\x2f\xfd", "compressed by zstd"},
	{"PK\x03\x04", "a zip archive, such as a spreadsheet"},
	{"ARROW1", "Arrow"},
}

// foreignForm names the format of a file that is not CSV, otherwise empty. No CSV header begins with a
// bracket, as JSON does.
func foreignForm(start []byte) string {
	for _, f := range foreignForms {
		if strings.HasPrefix(string(start), f.start) {
			return f.name
		}
	}
	switch text := bytes.TrimLeft(start, " \t\r\n"); {
	case len(text) == 0:
		return ""
	case text[0] == '{':
		return "JSON or JSON lines"
	case text[0] == '[':
		return "JSON"
	case bytes.IndexByte(start, 0) >= 0:
		return "binary"
	}
	return ""
}

func newCSVFile(path string, in io.Reader) (*csvFile, error) {
	f, err := newRecords(path, in, "a CSV: a published sweep (columns batch and kernel_time) or samples (columns m and us)", convertHint)
	if err != nil {
		return nil, err
	}
	ok, err := f.next()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, &Error{Path: path, Reason: "the file is empty"}
	}
	return f, f.header()
}

// newRecords opens a CSV before its first line; expected and hint are for files that are not CSV.
func newRecords(path string, in io.Reader, expected, hint string) (*csvFile, error) {
	bound := &recordReader{in: in}
	buffered := bufio.NewReaderSize(bound, 1<<16)
	if bom, err := buffered.Peek(3); err == nil && string(bom) == "\ufeff" {
		buffered.Discard(3)
	}
	if start, _ := buffered.Peek(sniffBytes); foreignForm(start) != "" {
		return nil, &Error{Path: path, Reason: fmt.Sprintf("the file is %s, expected %s", foreignForm(start), expected), Hint: hint}
	}
	f := &csvFile{path: path, r: csv.NewReader(buffered), bound: bound, at: map[string]int{}, words: map[string]string{}}
	f.r.FieldsPerRecord = -1
	f.r.ReuseRecord = true
	return f, nil
}

// header reads the current line as column names. Names of ignored columns may repeat: benchmarks write one
// "noise" per time.
func (f *csvFile) header() error {
	names := make([]string, len(f.record))
	for i, name := range f.record {
		names[i] = strings.ToLower(strings.TrimSpace(name))
	}
	return f.setHeader(names)
}

func isRead(name string) bool {
	for _, known := range [][]string{publishedColumns, export.SamplesColumns, oldColumns, otherColumns, otherMeaning} {
		if slices.Contains(known, name) {
			return true
		}
	}
	return false
}

func (f *csvFile) setHeader(names []string) error {
	f.names = names
	for i, name := range names {
		if first, twice := f.at[name]; !twice {
			f.at[name] = i
		} else if isRead(name) {
			return &Error{Path: f.path, Line: f.line, Reason: parquetfile.TwiceNamed(name, first, i).Error()}
		}
	}
	return nil
}

// next reads a line; false at the end of the file.
func (f *csvFile) next() (bool, error) {
	record, err := f.r.Read()
	f.bound.read = 0
	if err == io.EOF {
		return false, nil
	}
	if errors.Is(err, errLongRecord) {
		return false, whole(&Error{Path: f.path, Line: f.line + 1, Reason: err.Error() + ": expected a CSV"})
	}
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return false, &Error{Path: f.path, Line: parse.Line, Reason: parse.Err.Error()}
	}
	if err != nil {
		return false, fmt.Errorf("import %q: %w", f.path, err)
	}
	f.record = record
	f.line, _ = f.r.FieldPos(0)
	if len(record) > len(f.names) && len(f.names) > 0 {
		return false,
			&Error{Path: f.path, Line: f.line, Reason: fmt.Sprintf("%d cells, the header has %d columns", len(record), len(f.names))}
	}
	return true, nil
}

func (f *csvFile) has(column string) bool {
	_, ok := f.at[column]
	return ok
}

func (f *csvFile) ignored(known []string) []string {
	var out []string
	for _, name := range f.names {
		if !slices.Contains(known, name) {
			out = append(out, strconv.Quote(name))
		}
	}
	return out
}

// column finds a column by name once for many lines.
func (f *csvFile) column(name string) column {
	at, ok := f.at[name]
	if !ok {
		at = len(f.names) // beyond the cells of any line
	}
	return column{name, at}
}

type column struct {
	name string
	at   int
}

// fail is an error in the current line's cell of a column.
func (f *csvFile) fail(column, format string, args ...any) error {
	return &Error{Path: f.path, Line: f.line, Column: column, Value: f.cell(column), Reason: fmt.Sprintf(format, args...)}
}

// contradicts is the error of a cell that contradicts a flag: it is unknown which is right.
func (f *csvFile) contradicts(column, flag, value string) error {
	return whole(f.fail(column, "is not the %s of %s: a flag is only for a column that the file lacks", value, flag))
}

func whole(err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.whole = true
	}
	return err
}

// cell returns the text in a column, empty if column or cell is missing.
func (f *csvFile) cell(column string) string { return f.in(f.column(column)) }

func (f *csvFile) in(c column) string {
	if c.at >= len(f.record) {
		return ""
	}
	return strings.TrimSpace(f.record[c.at])
}
