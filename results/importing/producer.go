package importing

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
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/parquetfile"
	"github.com/gemmaudit/gemmaudit/results/producer"
)

const formatsHint = "`gemmaudit import --list-formats` lists the formats"

// recognized is a file with its recognized format; nil for a possible CSV.
type recognized struct {
	in     io.Reader
	format *producer.Format
}

// mostUnzipped limits the size of a compressed file's content.
const mostUnzipped = 16 << 30

var errUnzipped = fmt.Errorf("more than %d bytes decompressed", int64(mostUnzipped))

// recognize detects a file's producer. Traces are often compressed, and AIConfigurator writes Parquet.
func recognize(path string, in io.Reader) (recognized, error) {
	buffered := bufio.NewReaderSize(in, producer.HeadBytes)
	start, _ := buffered.Peek(producer.HeadBytes) // an error repeats when the file is read
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
		return recognized{in: bytes.NewReader(start[:2])}, nil // refused later as Parquet
	}
	return recognized{buffered, producer.Recognize(start)}, nil
}

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

func (p *parsed) produced(f *csvFile, found recognized, opt Options) error {
	format := found.format
	p.begin(f.path, format.Name)
	if format.Refused != "" {
		return whole(&Error{Path: f.path, Reason: fmt.Sprintf("the file is %s: %s", format.Name, format.Refused)})
	}
	if !format.Timed {
		return whole(&Error{Path: f.path,
			Reason: fmt.Sprintf("the file is %s: it holds shapes and no times, so it is no run", format.Name), Untimed: true})
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
				return &Error{Path: f.path, Line: r.Line, Reason: r.Out}
			}
			p.leaveOut(r.Line, r.Out)
			return nil
		}
		rec, err := c.record(r)
		p.assumeLayout(rec.c.Kernel, rec.c.Subject, opt.Layout != "" || r.LayoutKnown)
		if err != nil {
			return err
		}
		return p.emit(rec)
	})
	f.notes = append(f.notes, c.notes...)
	var wrong *Error
	if err == nil || errors.As(err, &wrong) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &Error{Path: f.path, Reason: err.Error()}
}

type converter struct {
	path  string
	opt   Options
	notes []string
	noted map[string]bool
}

func (c *converter) record(r producer.Row) (record, error) {
	opt := c.opt
	rec := record{c: results.Case{M: r.M, Label: r.Label}, s: results.Sample{Phase: results.PhaseSweep, Launches: 1, US: r.US},
		path: c.path, line: r.Line, counted: true}
	rec.c.SeriesKey = results.SeriesKey{Device: c.over("device", opt.Device, r.Device), Kernel: c.over("kernel", opt.Kernel, r.Kernel),
		Subject: r.Subject, Regime: opt.Regime}
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
			return rec,
				whole(&Error{Path: c.path, Line: r.Line,
					Reason: fmt.Sprintf("%s %s is not the %s of %s: a flag is only for a value that the file lacks", d.what, d.to, d.given,
						d.flag)})
		}
	}
	if opt.Layout != "" {
		given, err := kernels.ParseLayout(opt.Layout)
		if err != nil {
			return rec, fmt.Errorf("import: %w", err)
		}
		if r.LayoutKnown && given != rec.c.Layout {
			return rec,
				whole(&Error{Path: c.path, Line: r.Line,
					Reason: fmt.Sprintf("layout %v is not the %s of --layout", rec.c.Layout, opt.Layout)})
		}
		rec.c.Layout = given
	}
	f := csvFile{path: c.path, at: map[string]int{}}
	if err := f.lacking([]needed{
		{"device", "--device-name NAME", rec.c.Device != ""}, {"kernel", "--kernel NAME", rec.c.Kernel != ""},
		{"dtype", "--dtype TYPE", rec.c.DType != ""},
		{"n", "--n N", rec.c.N > 0}, {"k", "--k K", rec.c.K > 0},
	}); err != nil {
		return rec, err
	}
	if err := rec.c.Subject.Validate(); err != nil {
		return rec, whole(&Error{Path: c.path, Line: r.Line, Reason: err.Error()})
	}
	return rec, nil
}

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

func sizeText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

var tableColumns = []string{"device", "kernel_source", "gemm_dtype", "moe_dtype", "m", "n", "k", "latency"}

// parquetTable returns a table of AIConfigurator as CSV, nil for other Parquet.
func parquetTable(path string, in *os.File) (*bytes.Buffer, error) {
	f, err := parquetfile.Open(path, in)
	if err != nil {
		return nil, nil // refused later as Parquet
	}
	has := func(name string) bool { return slices.Contains(f.Names(), name) }
	if !has("latency") || !has("gemm_dtype") && !has("moe_dtype") {
		return nil, nil
	}
	var names []string
	var columns []parquetfile.Column
	var cells [][]string // by line
	for _, name := range tableColumns {
		if !has(name) {
			continue
		}
		at := len(names)
		names = append(names, name)
		columns = append(columns,
			parquetfile.Column{Name: name, At: slices.Index(f.Names(), name), Take: func(k int, v parquet.Value) error {
				if k == len(cells) {
					cells = append(cells, make([]string, len(columns)))
				}
				cells[k][at] = ""
				if !v.IsNull() {
					cells[k][at] = v.String()
				}
				return nil
			}})
	}
	text := &bytes.Buffer{}
	w := csv.NewWriter(text)
	if err := w.Write(names); err != nil {
		return nil, err
	}
	if err := f.Read(columns, func(n int) error { return w.WriteAll(cells[:n]) }); err != nil {
		return nil, err
	}
	return text, w.Error()
}

// Shape is a product computed by a workload.
type Shape struct {
	// Subject is the product; its type is empty if unknown.
	Subject kernels.Subject
	M       int
	// Calls is how often it was computed: the number of lines, or the file's count.
	Calls int
}

// Workload is the products in a file.
type Workload struct {
	// Format is the format's name, as in [Imported].
	Format string
	// Library is the kernel that computed the products; empty if unknown.
	Library string
	// Shapes are the distinct products in order of first appearance.
	Shapes  []Shape
	LeftOut []LeftOut
}

// ReadWorkload reads the products of a log, trace, recorded workload, benchmark or CSV with columns m, n and
// k, with or without times. An unknown format is an [Error].
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
		return nil, &Error{Path: path,
			Reason: "the file is of no known format: expected products with columns m, n and k, a log or a trace", Hint: formatsHint}
	}
	type key struct {
		kernels.Subject
		m int
	}
	w := &Workload{Format: found.format.Name, Library: found.format.Library}
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
		return nil, &Error{Path: path, Reason: err.Error()}
	}
	sortOut(w.LeftOut)
	return w, nil
}
