package results

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// maxDimension bounds M, N, K and counts in an imported file: what lies above
// is a mistake in the file, and products of three stay within float64's range.
const maxDimension = 1 << 31

// maxRecordBytes is the longest line that is read. Without a bound a file that has
// no lines, as a device has none, would be read until memory runs out.
const maxRecordBytes = 1 << 20

var errLongRecord = fmt.Errorf("a line of more than %d bytes", maxRecordBytes)

// recordReader fails when a record takes more than maxRecordBytes from in.
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

// csvFile reads one CSV line by line and words what is wrong with it.
type csvFile struct {
	path   string
	r      *csv.Reader
	bound  *recordReader
	names  []string       // of the header, lower case
	at     map[string]int // column by name
	record []string
	line   int
	// notes are sentences on how the file was read: where an option holds and not
	// the file, and what was taken for granted.
	notes []string
	words map[string]string // of text cells
}

// file reads one CSV of either kind.
func (p *parsed) file(ctx context.Context, path string, opt ImportOptions) error {
	f, err := regular.Open(path)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer f.Close()
	return p.read(ctx, path, f, opt)
}

func (p *parsed) read(ctx context.Context, path string, in io.Reader, opt ImportOptions) error {
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
		if d.value > maxDimension {
			return &ImportError{Path: path, Reason: fmt.Sprintf("%s is given as %d, above %d", d.name, d.value, int64(maxDimension))}
		}
	}
	before := p.lines
	parse := func(ctx context.Context) error { return p.kind(ctx, f, opt) }
	if found.format != nil {
		parse = func(context.Context) error { return p.produced(f, found, opt) }
	}
	if err := p.parallel(ctx, f, parse); err != nil {
		return err
	}
	p.end(p.lines - before)
	if last := p.imported[len(p.imported)-1]; last.Rows == 0 && len(last.LeftOut) == 0 {
		return &ImportError{Path: path, Reason: "there is no line after the header"}
	}
	return nil
}

// kind parses the lines of a CSV of the kind that its header tells.
func (p *parsed) kind(ctx context.Context, f *csvFile, opt ImportOptions) error {
	switch {
	case f.has("batch") && f.has("kernel_time"):
		p.begin(f.path, publishedFormat)
		return p.published(f, opt)
	case f.has("m") && f.time().name != "":
		p.begin(f.path, samplesFormat)
		return p.samples(f, opt)
	}
	return &ImportError{
		Path: f.path, Line: 1,
		Reason: fmt.Sprintf("the header is %.200q, expected columns batch and kernel_time (a published sweep) or m and us (a samples CSV)", strings.Join(f.names, ",")),
		Hint:   formatsHint,
	}
}

// Lines go from the goroutine that parses to the one that stores in batches, of which
// a few are on the way.
const (
	batchLines = 1024
	batchesOut = 4
)

// parallel parses a file while what has been parsed is stored. Of several errors that
// of the earliest line is returned: it reaches the store before those that follow.
func (p *parsed) parallel(ctx context.Context, f *csvFile, kind func(context.Context) error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan []record, batchesOut)
	free := make(chan []record, batchesOut+2)
	for range cap(free) {
		free <- nil // made when it is first filled
	}
	p.batch = <-free
	p.give = func(full []record) ([]record, error) {
		batches <- full
		return (<-free)[:0], ctx.Err()
	}
	var parse error
	go func() {
		defer close(batches)
		parse = kind(ctx)
		// The lines before a bad one may hold a worse one.
		batches <- p.batch
	}()
	p.store.begin(f)
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
		p.warnings = append(p.warnings, p.store.warnings(f)...)
	}
	return parse
}

// emit gives a line on to be stored.
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

// sniffBytes is how much of a file tells its form.
const sniffBytes = 512

const convertHint = "convert it to CSV; `gemmaudit export RUN.db --format csv` writes a run of ours as one, and `gemmaudit merge` joins runs as they are"

// foreignForms are files that are no CSV, by how they begin.
var foreignForms = []struct{ start, name string }{
	{"PAR1", "Parquet"},
	{"SQLite format 3\x00", "a database, such as a run"},
	{"\x1f\x8b", "compressed by gzip"},
	{"\x28\xb5\x2f\xfd", "compressed by zstd"},
	{"PK\x03\x04", "a zip archive, such as a spreadsheet"},
	{"ARROW1", "Arrow"},
}

// foreignForm names the form of a file that is no CSV by its first bytes, empty for one that
// may be a CSV. No header of ours begins with a bracket, as JSON does.
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

// newCSVFile opens a CSV of samples or of a published sweep, and reads its header.
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
		return nil, &ImportError{Path: path, Reason: "the file is empty"}
	}
	return f, f.header()
}

// newRecords opens a CSV of which no line is read; expected and hint are for files that are none.
func newRecords(path string, in io.Reader, expected, hint string) (*csvFile, error) {
	bound := &recordReader{in: in}
	buffered := bufio.NewReaderSize(bound, 1<<16)
	if bom, err := buffered.Peek(3); err == nil && string(bom) == "\ufeff" {
		buffered.Discard(3)
	}
	if start, _ := buffered.Peek(sniffBytes); foreignForm(start) != "" {
		return nil, &ImportError{Path: path, Reason: fmt.Sprintf("the file is %s, expected %s", foreignForm(start), expected), Hint: hint}
	}
	f := &csvFile{path: path, r: csv.NewReader(buffered), bound: bound, at: map[string]int{}, words: map[string]string{}}
	f.r.FieldsPerRecord = -1
	f.r.ReuseRecord = true
	return f, nil
}

// header takes the present line as the names of the columns. Of a column that is not read the name may stand twice:
// benchmarks write one "noise" for each of their times.
func (f *csvFile) header() error {
	names := make([]string, len(f.record))
	at := map[string]int{}
	for i, name := range f.record {
		names[i] = strings.ToLower(strings.TrimSpace(name))
		if first, twice := at[names[i]]; twice && isRead(names[i]) {
			return &ImportError{Path: f.path, Line: f.line, Reason: twiceNamed(names[i], first, i).Error()}
		} else if !twice {
			at[names[i]] = i
		}
	}
	f.setHeader(names)
	return nil
}

// twiceNamed is the error of a name that two columns have, at places from 0.
func twiceNamed(name string, first, second int) error {
	return fmt.Errorf("column %q stands twice in the header, at %d and %d", name, first+1, second+1)
}

// isRead says whether a column of a CSV is read.
func isRead(name string) bool {
	for _, known := range [][]string{publishedColumns, samplesColumns, oldColumns, otherColumns, otherMeaning} {
		if slices.Contains(known, name) {
			return true
		}
	}
	return false
}

// columnPlaces returns the names of columns in lower case, without spaces around them, and their places. A name that stands twice is an
// error.
func columnPlaces(header []string) (names []string, at map[string]int, err error) {
	names, at = make([]string, len(header)), map[string]int{}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		if first, twice := at[name]; twice && name != "" {
			return nil, nil, twiceNamed(name, first, i)
		}
		names[i], at[name] = name, i
	}
	return names, at, nil
}

func (f *csvFile) setHeader(names []string) {
	f.names = names
	for i, name := range names {
		if _, twice := f.at[name]; !twice {
			f.at[name] = i
		}
	}
}

// next reads a line; false at the end of the file.
func (f *csvFile) next() (bool, error) {
	record, err := f.r.Read()
	f.bound.read = 0
	if err == io.EOF {
		return false, nil
	}
	if errors.Is(err, errLongRecord) {
		return false, whole(&ImportError{Path: f.path, Line: f.line + 1, Reason: err.Error() + ": expected a CSV"})
	}
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return false, &ImportError{Path: f.path, Line: parse.Line, Reason: parse.Err.Error()}
	}
	if err != nil {
		return false, fmt.Errorf("import %q: %w", f.path, err)
	}
	f.record = record
	f.line, _ = f.r.FieldPos(0)
	if len(record) > len(f.names) && len(f.names) > 0 {
		return false, &ImportError{Path: f.path, Line: f.line, Reason: fmt.Sprintf("%d cells, the header has %d columns", len(record), len(f.names))}
	}
	return true, nil
}

func (f *csvFile) has(column string) bool {
	_, ok := f.at[column]
	return ok
}

// ignored lists the columns that are not among known.
func (f *csvFile) ignored(known []string) []string {
	var out []string
	for _, name := range f.names {
		if !slices.Contains(known, name) {
			out = append(out, strconv.Quote(name))
		}
	}
	return out
}

// column finds a column by its name once for many lines.
func (f *csvFile) column(name string) column {
	at, ok := f.at[name]
	if !ok {
		at = len(f.names) // no line has so many cells
	}
	return column{name, at}
}

// column is a column of a CSV.
type column struct {
	name string
	at   int
}

// fail is an error of the present line's cell in a column.
func (f *csvFile) fail(column, format string, args ...any) error {
	return &ImportError{Path: f.path, Line: f.line, Column: column, Value: f.cell(column), Reason: fmt.Sprintf(format, args...)}
}

// contradicts is the error of a cell that says something else than a flag. The
// measurement is one of the two, and nobody here knows which.
func (f *csvFile) contradicts(column, flag, value string) error {
	return whole(f.fail(column, "is not the %s of %s: a flag stands in for a column that the file lacks", value, flag))
}

// whole marks an error of a cell as one of the file as a whole.
func whole(err error) error {
	var e *ImportError
	if errors.As(err, &e) {
		e.whole = true
	}
	return err
}

// cell is the text in a column, empty when the column or the cell is missing.
func (f *csvFile) cell(column string) string { return f.in(f.column(column)) }

func (f *csvFile) in(c column) string {
	if c.at >= len(f.record) {
		return ""
	}
	return strings.TrimSpace(f.record[c.at])
}

// maxText is above what any name or label has, mangled names of kernels included, and
// what tables hold.
const maxText = 4096

// checkText refuses words of more than most bytes, control characters and broken UTF-8: no name or label has them, and they would garble
// whatever prints it.
func checkText(s string, most int) error {
	switch {
	case len(s) > most:
		return fmt.Errorf("%d bytes, expected at most %d", len(s), most)
	case !utf8.ValidString(s):
		return fmt.Errorf("%q is not UTF-8 text", s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%q has a control character", s)
	}
	return nil
}

// text reads a cell of words. Equal words are one string in memory.
func (f *csvFile) text(column string) (string, error) { return f.textIn(f.column(column)) }

func (f *csvFile) textIn(c column) (string, error) {
	s := f.in(c)
	if known, ok := f.words[s]; ok {
		return known, nil
	}
	if err := checkText(s, maxText); err != nil {
		return "", &ImportError{Path: f.path, Line: f.line, Reason: fmt.Sprintf("column %s: %v", c.name, err)}
	}
	s = strings.Clone(s) // without the line around it
	if len(f.words) < mostWords {
		f.words[s] = s
	}
	return s, nil
}

// whole reads a cell that must hold a whole number of at least least.
func (f *csvFile) whole(c column, least int64) (int64, error) {
	s := f.in(c)
	if s == "" {
		return 0, f.fail(c.name, "is missing")
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		return 0, f.fail(c.name, "is not a whole number")
	case n < least:
		return 0, f.fail(c.name, "is below %d", least)
	}
	return n, nil
}

// dimension reads a cell that must hold a size or a count.
func (f *csvFile) dimension(column string, least int64) (int, error) {
	return f.dimensionIn(f.column(column), least)
}

func (f *csvFile) dimensionIn(c column, least int64) (int, error) {
	n, err := f.whole(c, least)
	if err == nil && n > maxDimension {
		err = f.fail(c.name, "is above %d", int64(maxDimension))
	}
	return int(n), err
}

// number reads a cell that must hold a finite number of at least 0.
func (f *csvFile) number(c column) (float64, error) {
	s := f.in(c)
	if s == "" {
		return 0, f.fail(c.name, "is missing")
	}
	x, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return 0, f.fail(c.name, "is not a number")
	case err != nil || math.IsNaN(x) || math.IsInf(x, 0):
		return 0, f.fail(c.name, "is not a finite number")
	case x < 0:
		return 0, f.fail(c.name, "is negative")
	}
	return x, nil
}

// optional reads a number that may be missing, as 0.
func (f *csvFile) optional(column string) (float64, error) { return f.optionalIn(f.column(column)) }

func (f *csvFile) optionalIn(c column) (float64, error) {
	if f.in(c) == "" {
		return 0, nil
	}
	v, err := f.number(c)
	if err == nil && math.Abs(v) > mostFigure {
		return 0, f.fail(c.name, "is %g, above %g", v, mostFigure)
	}
	return v, err
}

// mostFigure bounds clocks, powers, temperatures and energies: sums and rates of what is below
// are finite.
const mostFigure = 1e9

// leastUS and mostUS bound the time of a launch. No product takes less than a clock
// cycle or more than some decades, and rates of times between them are finite.
const leastUS, mostUS = 1e-6, 1e15

// timeColumn is the column of the time of a launch, and how many microseconds its unit has.
type timeColumn struct {
	column
	unit float64
}

// times are the columns that a time may have.
var times = []timeColumn{{column{name: "us"}, 1}, {column{name: "ms"}, 1e3}, {column{name: "seconds"}, 1e6}}

// time is the column of times that the file has; its name is empty where there is none.
func (f *csvFile) time() timeColumn {
	for _, t := range times {
		if f.has(t.name) {
			return timeColumn{f.column(t.name), t.unit}
		}
	}
	return timeColumn{}
}

// microseconds reads the time of a launch.
func (f *csvFile) microseconds(column string) (float64, error) {
	return f.microsecondsIn(timeColumn{f.column(column), 1})
}

func (f *csvFile) microsecondsIn(c timeColumn) (float64, error) {
	x, err := f.number(c.column)
	x *= c.unit
	if err == nil && (x < leastUS || x > mostUS) {
		err = f.fail(c.name, "is not a time: expected %g to %g us", leastUS, mostUS)
	}
	return x, err
}
