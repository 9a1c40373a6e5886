package importing

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/producer"
)

// Imported describes the import of one file.
type Imported struct {
	Path string `json:"path"`
	// Format is the recognized format: one of package producer, "samples" or "published".
	Format string `json:"format"`
	// Rows is the number of lines that became samples.
	Rows int `json:"rows"`
	// Repeated is the number of rows that repeat an earlier one and became further rounds of it.
	Repeated int `json:"repeated,omitempty"`
	// LayoutAssumed is set if PyTorch timed the rows and nothing gives the weights' layout.
	LayoutAssumed bool `json:"layout_assumed,omitempty"`
	// LeftOut are the skipped lines by reason, the most frequent first.
	LeftOut []LeftOut `json:"left_out,omitempty"`
}

// LeftOut is lines of a file skipped for one reason.
type LeftOut struct {
	Reason string `json:"reason"`
	Rows   int    `json:"rows"`
	// Line is the first of them, from 1.
	Line int `json:"line"`
}

// mostReasons limits the reasons counted separately per file.
const mostReasons = 64

// NothingReadError means that no line of any file became a sample.
type NothingReadError struct{ Files []Imported }

func (e *NothingReadError) Error() string {
	var words []string
	for _, f := range e.Files {
		for _, l := range f.LeftOut {
			words = append(words, fmt.Sprintf("%s:%d: %s (%d of them)", f.Path, l.Line, l.Reason, l.Rows))
		}
	}
	return "no row could be read: " + strings.Join(words, "; ")
}

func (p *parsed) begin(path, format string) {
	p.imported = append(p.imported, Imported{Path: path, Format: format})
}

// assumeLayout notes that the weights' layout is a guess: PyTorch's mm takes [K,N], its Linear [N,K].
func (p *parsed) assumeLayout(kernel string, of kernels.Subject, known bool) {
	if !known && of.Layout == kernels.RowMajor && of.Operation.HasWeights() && strings.Contains(kernel, "torch") {
		p.imported[len(p.imported)-1].LayoutAssumed = true
	}
}

func (p *parsed) leaveOut(line int, reason string) {
	of := &p.imported[len(p.imported)-1]
	of.LeftOut = countOut(of.LeftOut, line, reason)
}

func countOut(left []LeftOut, line int, reason string) []LeftOut {
	i := slices.IndexFunc(left, func(l LeftOut) bool { return l.Reason == reason })
	if i < 0 && len(left) >= mostReasons {
		reason = "other reasons"
		i = slices.IndexFunc(left, func(l LeftOut) bool { return l.Reason == reason })
	}
	if i < 0 {
		return append(left, LeftOut{Reason: reason, Rows: 1, Line: line})
	}
	left[i].Rows++
	return left
}

func (p *parsed) end(rows int) {
	of := &p.imported[len(p.imported)-1]
	of.Rows = rows
	sortOut(of.LeftOut)
}

func sortOut(left []LeftOut) {
	slices.SortFunc(left, func(a, b LeftOut) int { return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Line, b.Line)) })
}

func (p *parsed) anyRead() error {
	if p.lines > 0 {
		return nil
	}
	return &NothingReadError{Files: p.imported}
}

// reasonOf returns why a line is skipped; ok is false if err is not about one line.
func reasonOf(err error) (line int, reason string, ok bool) {
	var e *Error
	if !errors.As(err, &e) || e.Line == 0 || e.whole {
		return 0, "", false
	}
	switch {
	case e.Column == "dtype" || e.Column == "disposition":
		// There are few, and users ask which.
		return e.Line, fmt.Sprintf("column %s: %.40q %s", e.Column, e.Value, e.Reason), true
	case e.Column != "":
		return e.Line, "column " + e.Column + " " + e.Reason, true
	}
	return e.Line, e.Reason, true
}

func (p *parsed) each(f *csvFile, opt Options, parse func() (record, error)) error {
	for {
		ok, err := f.next()
		if err == nil && !ok {
			return nil
		}
		var rec record
		if err == nil {
			rec, err = parse()
		}
		if err == nil {
			if err := p.emit(rec); err != nil {
				return err
			}
			continue
		}
		line, reason, one := reasonOf(err)
		if !opt.LeaveOut || !one {
			return err
		}
		p.leaveOut(line, reason)
	}
}

// naming is how devices are named when lines have several hosts or cards.
type naming int

const (
	byDevice naming = iota // by column device
	byHost                 // by host and device
	byCard                 // by host, device and card
)

// errManyMachines means that lines of one device come from several hosts or cards, and their rounds clash.
var errManyMachines = errors.New("lines of several hosts or cards have one device")

func (how naming) name(rec *record) {
	if how >= byHost && rec.o.host != "" {
		rec.c.Device = rec.o.host + "/" + rec.c.Device
	}
	if how >= byCard && rec.o.card != "" {
		rec.c.Device += "/" + rec.o.card
	}
}

// Format is a format that [Import] or [ReadWorkload] reads.
type Format struct {
	Name string `json:"format"`
	// Holds is "times" for a run, "shapes" for a workload.
	Holds     string `json:"holds"`
	WrittenBy string `json:"written_by"`
	Reads     string `json:"reads"`
	LeavesOut string `json:"leaves_out"`
}

const badCells = "rows with a cell that cannot be read"

// Formats lists the supported formats.
func Formats() []Format {
	out := []Format{
		{samplesFormat, "times", "gemmaudit export, or you",
			"device, kernel, dtype, m, n, k, us (or ms, seconds), and the columns of export", badCells},
		{publishedFormat, "times", "published sweeps", "batch, kernel_time, flops, utils, kernel_name; the rest from the file's name",
			badCells},
	}
	for _, f := range producer.Formats {
		holds := "shapes"
		if f.Timed {
			holds = "times"
		}
		out = append(out, Format{f.Name, holds, f.Command, f.Reads, f.LeavesOut})
	}
	return out
}

// The formats that this package reads without package producer.
const samplesFormat, publishedFormat = "samples", "published"
