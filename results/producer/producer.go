// Package producer reads products, and their times if any, from other programs' output: benchmarks, tuners,
// library logs, traces. A program is recognized by the beginning of its output and has a reader in [Formats].
//
// BLAS is column-major. Its m is our N, its n is our M: the first operand holds the weights. A leading "T"
// means weights [N,K] (layout nk), "N" means [K,N] (kn).
package producer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Row is one product of a file.
type Row struct {
	Line int // from 1; in a trace the event's number
	// Subject is the product. Unknown DType is empty, unknown N and K are 0.
	Subject kernels.Subject
	// LayoutKnown means that the file gives the weights' layout; otherwise it is the producer's usual one.
	LayoutKnown bool
	M           int
	// Calls is how often the product was computed.
	Calls int
	// US is the time of one launch in microseconds, 0 if none.
	US float64
	// Device, Kernel and Label are as in a run; empty if unknown.
	Device, Kernel, Label string
	// Out says why the row is skipped; empty otherwise. If set, other fields are undefined.
	Out string
}

// Format is the output of one program.
type Format struct {
	// Name is a short name, "hipblaslt-bench". Command writes such a file.
	Name, Command string
	// Reads and LeavesOut describe the rows read and the rows skipped.
	Reads, LeavesOut string
	// Library is the computing kernel's name in this program; empty if unknown.
	Library string
	// Timed means that rows have times. Otherwise the file is a workload.
	Timed bool
	// Refused says why such a file is unusable, and what to record instead; empty for a supported format.
	Refused string

	starts func(head head) bool
	read   func(in io.Reader, take taker) error
}

// taker receives the rows of a file.
type taker func(Row) error

// row passes a line's row on; err is the reason for skipping it.
func (take taker) row(line int, r Row, err error) error {
	if err != nil {
		r = Row{Out: err.Error()}
	}
	r.Line = line
	return take(r)
}

// time reads the time of a launch in units of scale microseconds.
func (r *Row) time(text string, scale float64) (err error) {
	var ok bool
	if r.US, ok = parseUS(text, scale); !ok {
		err = errNoTime
	}
	return err
}

// HeadBytes is the most of a file that [Recognize] needs.
const HeadBytes = 64 << 10

// Limits of a file, far above the programs' output.
const (
	maxLine = 1 << 20
	maxRows = 1 << 22
	maxKept = 1 << 20 // rows compared with each other in a format
	maxSize = 1 << 31
	maxText = 4096
)

var (
	errLongLine = fmt.Errorf("its longest line exceeds %d bytes", maxLine)
	errManyRows = fmt.Errorf("more than %d rows", maxRows)
)

// Recognize returns the format of a file by its first bytes, at most [HeadBytes]; nil if unknown.
func Recognize(start []byte) *Format {
	h := newHead(start)
	for i := range Formats {
		if Formats[i].starts(h) {
			return &Formats[i]
		}
	}
	return nil
}

// RecognizeShapes returns the format of plain shapes for a CSV whose first line has at least the columns m, n
// and k; nil for other files.
func RecognizeShapes(start []byte) *Format {
	h := newHead(start)
	if h.json || len(h.lines) == 0 || !hasAll(columnNames(cells(h.lines[0])), []string{"m", "n", "k"}) {
		return nil
	}
	return &Formats[len(Formats)-1]
}

// Read passes each row of a file to take in order, including skipped ones. The error is take's or in's, or
// says why the file is unreadable.
func (f *Format) Read(in io.Reader, take func(Row) error) error {
	if f.Refused != "" {
		return errors.New(f.Refused)
	}
	rows := 0
	return f.read(in, func(r Row) error {
		if rows++; rows > maxRows {
			return errManyRows
		}
		r.Calls = max(1, r.Calls)
		return take(r.checked())
	})
}

func (r Row) checked() Row {
	if r.Out != "" {
		return Row{Line: r.Line, Out: r.Out}
	}
	s := r.Subject
	if s.DType == "" {
		s.DType = kernels.FP32
	}
	s.N, s.K = max(1, s.N), max(1, s.K) // flags may supply these
	switch {
	case max(r.M, s.N, s.K, s.Products) > maxSize:
		r.Out = fmt.Sprintf("a size is above %d", int64(maxSize))
	case r.M < 1 || s.Validate() != nil || r.Subject.N < 0 || r.Subject.K < 0:
		r.Out = "its sizes or types are no product"
	case r.US != 0 && !(r.US >= leastUS && r.US <= mostUS):
		r.Out = "its time is not the time of a launch"
	case !printable(r.Device) || !printable(r.Kernel) || !printable(r.Label):
		r.Out = "a name is not text"
	}
	if r.Out != "" {
		return Row{Line: r.Line, Out: r.Out}
	}
	return r
}

// eachMatch reads a row from the submatches of each line that matches.
func eachMatch(in io.Reader, line *regexp.Regexp, take taker, row func(m []string) (Row, error)) error {
	return eachLine(in, func(at int, text string) error {
		m := line.FindStringSubmatch(text)
		if m == nil {
			return nil
		}
		r, err := row(m)
		return take.row(at, r, err)
	})
}

// parseSize reads a whole number of 1 to maxSize.
func parseSize(s string) (n int, ok bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 1 && n <= maxSize
}

func eachLine(in io.Reader, take func(line int, text string) error) error {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	line := 0
	for s.Scan() {
		line++
		text := s.Text()
		if line == 1 {
			text = trimMark(text)
		}
		if err := take(line, text); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return errLongLine
	}
	return s.Err()
}
