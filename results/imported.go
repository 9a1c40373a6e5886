package results

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results/producer"
)

// Imported is what an import took of one file.
type Imported struct {
	Path string `json:"path"`
	// Format is the name of the format that was recognized: one of package producer, "samples" or "published".
	Format string `json:"format"`
	// Rows is how many lines became samples.
	Rows int `json:"rows"`
	// LeftOut are the lines that did not, by reason, the most frequent first.
	LeftOut []LeftOut `json:"left_out,omitempty"`
}

// LeftOut are lines of a file that were left out for one reason.
type LeftOut struct {
	Reason string `json:"reason"`
	Rows   int    `json:"rows"`
	// Line is the first of them, from 1.
	Line int `json:"line"`
}

// mostReasons bounds the reasons of a file that are counted apart.
const mostReasons = 64

// NothingReadError says that no line of any file became a sample.
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

// Imported is what an import took of each file; nil for a run that was not just imported.
func (r *Run) Imported() []Imported { return r.imported }

// begin begins to count the lines of a file.
func (p *parsed) begin(path, format string) {
	p.imported = append(p.imported, Imported{Path: path, Format: format})
}

// leaveOut counts a line that is left out.
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

// end orders what was left out of the present file.
func (p *parsed) end(rows int) {
	of := &p.imported[len(p.imported)-1]
	of.Rows = rows
	sortOut(of.LeftOut)
}

func sortOut(left []LeftOut) {
	slices.SortFunc(left, func(a, b LeftOut) int { return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Line, b.Line)) })
}

// anyRead is an error when nothing was read.
func (p *parsed) anyRead() error {
	if p.lines > 0 {
		return nil
	}
	return &NothingReadError{Files: p.imported}
}

// reasonOf is why one line is left out; ok is false where err is not one line's.
func reasonOf(err error) (line int, reason string, ok bool) {
	var e *ImportError
	if !errors.As(err, &e) || e.Line == 0 || e.whole {
		return 0, "", false
	}
	switch {
	case e.Column == "dtype" || e.Column == "disposition":
		// There are few, and people ask which.
		return e.Line, fmt.Sprintf("column %s: %.40q %s", e.Column, e.Value, e.Reason), true
	case e.Column != "":
		return e.Line, "column " + e.Column + " " + e.Reason, true
	}
	return e.Line, e.Reason, true
}

// each parses line after line of a CSV.
func (p *parsed) each(f *csvFile, opt ImportOptions, parse func() (record, error)) error {
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

// naming is how devices are named that lines tell apart by host and card.
type naming int

const (
	byDevice naming = iota // by column device
	byHost                 // by host and device
	byCard                 // by host, device and card
)

// errManyMachines says that lines of one device are of several hosts or cards, whose rounds clash.
var errManyMachines = errors.New("lines of several hosts or cards have one device")

// name names the device of a line.
func (how naming) name(rec *record) {
	if how >= byHost && rec.o.host != "" {
		rec.c.Device = rec.o.host + "/" + rec.c.Device
	}
	if how >= byCard && rec.o.card != "" {
		rec.c.Device += "/" + rec.o.card
	}
}

// ImportFormat is a format that [Import] or [ReadWorkload] reads.
type ImportFormat struct {
	Name string `json:"format"`
	// Holds is "times" for a run, "shapes" for a workload.
	Holds     string `json:"holds"`
	WrittenBy string `json:"written_by"`
	Reads     string `json:"reads"`
	LeavesOut string `json:"leaves_out"`
}

const badCells = "rows with a cell that cannot be read"

// ImportFormats lists the formats that are read.
func ImportFormats() []ImportFormat {
	out := []ImportFormat{
		{samplesFormat, "times", "gemmaudit export, or you", "device, kernel, dtype, m, n, k, us (or ms, seconds), and the columns of export", badCells},
		{publishedFormat, "times", "published sweeps", "batch, kernel_time, flops, utils, kernel_name; the rest from the file's name", badCells},
	}
	for _, f := range producer.Formats {
		holds := "shapes"
		if f.Timed {
			holds = "times"
		}
		out = append(out, ImportFormat{f.Name, holds, f.Command, f.Reads, f.LeavesOut})
	}
	return out
}

// The names of the formats that this package reads itself.
const samplesFormat, publishedFormat = "samples", "published"
