package results

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results/producer"
)

const formatsHint = "`gemmaudit import --list-formats` lists what is read"

// recognized is a file with the format that it was recognized as; nil for one that may be a CSV of ours.
type recognized struct {
	in     io.Reader
	format *producer.Format
}

// mostUnzipped bounds a compressed file.
const mostUnzipped = 16 << 30

var errUnzipped = fmt.Errorf("more than %d bytes decompressed", int64(mostUnzipped))

// recognize finds the producer of a file. Traces are often compressed, and AIConfigurator writes Parquet.
func recognize(path string, in io.Reader) (recognized, error) {
	buffered := bufio.NewReaderSize(in, producer.HeadBytes)
	start, _ := buffered.Peek(producer.HeadBytes) // an error comes again when the file is read
	if bytes.HasPrefix(start, []byte("PAR1")) {
		if f, ok := in.(*os.File); ok {
			text, err := parquetTable(path, f)
			if err != nil {
				return recognized{}, err
			}
			if text != nil {
				return recognized{text, producer.Recognize(text.Bytes()[:min(text.Len(), producer.HeadBytes)])}, nil
			}
		}
	}
	if bytes.HasPrefix(start, []byte("\x1f\x8b")) {
		if z, err := gzip.NewReader(buffered); err == nil {
			inner := bufio.NewReaderSize(&boundReader{z, mostUnzipped}, producer.HeadBytes)
			if start, _ := inner.Peek(producer.HeadBytes); producer.Recognize(start) != nil {
				return recognized{inner, producer.Recognize(start)}, nil
			}
		}
		return recognized{in: bytes.NewReader(start[:2])}, nil // which is refused as what it is
	}
	return recognized{buffered, producer.Recognize(start)}, nil
}

// boundReader fails when more than left bytes are read.
type boundReader struct {
	in   io.Reader
	left int64
}

func (b *boundReader) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errUnzipped
	}
	return n, err
}

// produced reads the output of a producer.
func (p *parsed) produced(f *csvFile, found recognized, opt ImportOptions) error {
	format := found.format
	p.begin(f.path, format.Name)
	if !format.Timed {
		return whole(&ImportError{Path: f.path, Reason: fmt.Sprintf("the file is %s: it holds shapes and no times, so it is no run", format.Name),
			Hint: "`gemmaudit run --shapes-from " + f.path + " --deadline 5m` measures its products on this machine"})
	}
	if opt.Library != "" {
		name, version, _ := strings.Cut(opt.Library, " ")
		p.versions[name] = version
	}
	c := converter{path: f.path, opt: opt}
	err := format.Read(found.in, func(r producer.Row) error {
		if r.Out == "" && r.US == 0 {
			r.Out = "it has no time"
		}
		if r.Out != "" {
			if !opt.LeaveOut {
				return &ImportError{Path: f.path, Line: r.Line, Reason: r.Out}
			}
			p.leaveOut(r.Line, r.Out)
			return nil
		}
		rec, err := c.record(r)
		if err != nil {
			return err
		}
		return p.emit(rec)
	})
	f.notes = append(f.notes, c.notes...)
	var wrong *ImportError
	if err == nil || errors.As(err, &wrong) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &ImportError{Path: f.path, Reason: err.Error()}
}

// converter turns rows of a producer into lines of a run.
type converter struct {
	path  string
	opt   ImportOptions
	notes []string
	noted map[string]bool
}

func (c *converter) record(r producer.Row) (record, error) {
	opt := c.opt
	rec := record{c: Case{M: r.M, Label: r.Label}, s: Sample{Phase: PhaseSweep, Launches: 1, US: r.US}, path: c.path, line: r.Line, counted: true}
	rec.c.SeriesKey = SeriesKey{Device: c.over("device", opt.Device, r.Device), Kernel: c.over("kernel", opt.Kernel, r.Kernel), Subject: r.Subject, Regime: opt.Regime}
	for _, d := range []struct {
		what, flag string
		given      string
		to         string
		set        func()
	}{
		{"dtype", "--dtype", string(opt.DType), string(r.Subject.DType), func() { rec.c.DType = opt.DType }},
		{"n", "--n", sizeText(opt.N), sizeText(r.Subject.N), func() { rec.c.N = opt.N }},
		{"k", "--k", sizeText(opt.K), sizeText(r.Subject.K), func() { rec.c.K = opt.K }},
	} {
		switch {
		case d.given == "" || d.given == d.to:
		case d.to == "":
			d.set()
		default:
			return rec, whole(&ImportError{Path: c.path, Line: r.Line, Reason: fmt.Sprintf("%s %s is not the %s of %s: a flag stands in for what the file does not say", d.what, d.to, d.given, d.flag)})
		}
	}
	if opt.Layout != "" {
		given, err := kernels.ParseLayout(opt.Layout)
		if err != nil {
			return rec, fmt.Errorf("import: %w", err)
		}
		if r.LayoutKnown && given != rec.c.Layout {
			return rec, whole(&ImportError{Path: c.path, Line: r.Line, Reason: fmt.Sprintf("layout %v is not the %s of --layout", rec.c.Layout, opt.Layout)})
		}
		rec.c.Layout = given
	}
	f := csvFile{path: c.path, at: map[string]int{}}
	if err := f.lacking([]needed{
		{"device", "--device-name NAME", rec.c.Device != ""}, {"kernel", "--kernel NAME", rec.c.Kernel != ""}, {"dtype", "--dtype TYPE", rec.c.DType != ""},
		{"n", "--n N", rec.c.N > 0}, {"k", "--k K", rec.c.K > 0},
	}); err != nil {
		return rec, err
	}
	if err := rec.c.Subject.Validate(); err != nil {
		return rec, whole(&ImportError{Path: c.path, Line: r.Line, Reason: err.Error()})
	}
	return rec, nil
}

// over is what a flag says, else what the file says.
func (c *converter) over(what, flag, file string) string {
	if flag == "" {
		return file
	}
	if file != "" && file != flag && !c.noted[what] {
		if c.noted == nil {
			c.noted = map[string]bool{}
		}
		c.noted[what] = true
		c.notes = append(c.notes, fmt.Sprintf("%s is overruled: every row is of %q", what, flag))
	}
	return flag
}

// sizeText is a size as text, empty for none.
func sizeText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// tableColumns are the columns of AIConfigurator's Parquet that are read.
var tableColumns = []string{"device", "kernel_source", "gemm_dtype", "moe_dtype", "m", "n", "k", "latency"}

// parquetTable returns a table of AIConfigurator as CSV, nil for Parquet of other programs.
func parquetTable(path string, f *os.File) (text *bytes.Buffer, err error) {
	damaged := func(reason any) error { return damagedParquet(path, reason) }
	defer func() {
		// The decoder indexes by what a file says.
		if reason := recover(); reason != nil {
			text, err = nil, damaged(reason)
		}
	}()
	file, size, err := openParquet(path, f)
	if err != nil {
		return nil, nil // which is refused as Parquet
	}
	places := map[string]int{}
	for _, c := range file.Root().Columns() {
		if c.Leaf() && c.MaxRepetitionLevel() == 0 {
			places[c.Name()] = c.Index()
		}
	}
	_, gemm := places["gemm_dtype"]
	_, moe := places["moe_dtype"]
	if _, timed := places["latency"]; !timed || !gemm && !moe {
		return nil, nil
	}
	read := map[string]int{}
	var names []string
	for _, name := range tableColumns {
		if at, ok := places[name]; ok {
			read[name] = at
			names = append(names, name)
		}
	}
	file, err = unpackParquet(f, size, file, read)
	if errors.Is(err, errNotSupported) {
		return nil, unsupportedParquet(path, err)
	}
	if err != nil {
		return nil, damaged(err)
	}
	text = &bytes.Buffer{}
	w := csv.NewWriter(text)
	if err := w.Write(names); err != nil {
		return nil, err
	}
	for _, group := range file.RowGroups() {
		if err := writeGroup(w, group, names, read); err != nil {
			return nil, damaged(err)
		}
	}
	w.Flush()
	return text, w.Error()
}

// writeGroup writes a group of lines as CSV.
func writeGroup(w *csv.Writer, group parquet.RowGroup, names []string, at map[string]int) (err error) {
	chunks := group.ColumnChunks()
	open := make([]*columnReader, len(names))
	for i, name := range names {
		c := &columnReader{pages: chunks[at[name]].Pages(), room: make([]parquet.Value, parquetRows), name: name}
		open[i] = c
		defer func() { err = errors.Join(err, c.close()) }()
	}
	rows := make([][]string, parquetRows)
	for i := range rows {
		rows[i] = make([]string, len(names))
	}
	for left := group.NumRows(); left > 0; left -= parquetRows {
		n := int(min(left, parquetRows))
		for i, c := range open {
			if err := c.read(n, func(k int, v parquet.Value) error {
				rows[k][i] = ""
				if !v.IsNull() {
					rows[k][i] = v.String()
				}
				return nil
			}); err != nil {
				return err
			}
		}
		if err := w.WriteAll(rows[:n]); err != nil {
			return err
		}
	}
	return nil
}

// openParquet opens a Parquet file after its metadata was checked.
func openParquet(path string, f *os.File) (file *parquet.File, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("open %q: %w", path, err)
	}
	size = info.Size()
	if err := checkFooter(f, size); err != nil {
		return nil, 0, damagedParquet(path, err)
	}
	file, err = parquet.OpenFile(f, size, parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return nil, 0, damagedParquet(path, err)
	}
	rows, most := int64(0), mostRows(size)
	for _, group := range file.Metadata().RowGroups {
		if group.NumRows < 0 || group.NumRows > most-rows {
			return nil, 0, &FormatError{Path: path, Reason: fmt.Sprintf("the Parquet file has more than %d lines in %d bytes", most, size)}
		}
		rows += group.NumRows
	}
	return file, size, nil
}

// Shape is a product that a workload computed.
type Shape struct {
	// Subject is the product; its type is empty where the file does not say it.
	Subject kernels.Subject
	M       int
	// Calls is how often it was computed: by how many lines, or as the file counts.
	Calls int
}

// Workload is the products of a file.
type Workload struct {
	// Format is the name of the format, as [Imported] has it.
	Format string
	// Shapes are the products, each once, in the order in which they first appear.
	Shapes  []Shape
	LeftOut []LeftOut
}

// ReadWorkload reads the products of a log, a trace, a recorded workload, a benchmark or a CSV with columns m, n and k,
// with or without times. A file of no known format is an [ImportError].
func ReadWorkload(path string) (*Workload, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	defer f.Close()
	found, err := recognize(path, f)
	if err != nil {
		return nil, err
	}
	if found.format == nil {
		buffered := bufio.NewReaderSize(found.in, producer.HeadBytes)
		start, _ := buffered.Peek(producer.HeadBytes)
		found = recognized{buffered, producer.RecognizeShapes(start)}
	}
	if found.format == nil {
		return nil, &ImportError{Path: path, Reason: "the file is of no known format: expected products with columns m, n and k, a log or a trace", Hint: formatsHint}
	}
	type key struct {
		kernels.Subject
		m int
	}
	w := &Workload{Format: found.format.Name}
	at := map[key]int{}
	err = found.format.Read(found.in, func(r producer.Row) error {
		if r.Out != "" {
			w.LeftOut = countOut(w.LeftOut, r.Line, r.Out)
			return nil
		}
		k := key{r.Subject, r.M}
		i, ok := at[k]
		if !ok {
			i = len(w.Shapes)
			at[k] = i
			w.Shapes = append(w.Shapes, Shape{Subject: r.Subject, M: r.M})
		}
		w.Shapes[i].Calls += r.Calls
		return nil
	})
	if err != nil {
		return nil, &ImportError{Path: path, Reason: err.Error()}
	}
	sortOut(w.LeftOut)
	return w, nil
}
