// Package producer reads products, and their times where there are any, from the output of other programs: benchmarks,
// tuners, logs of libraries, traces. A program is recognized by the beginning of its output, and has one small reader
// in [Formats].
//
// BLAS is column-major. Its m is our N, its n is our M: the first operand holds the weights. "T" in front says that the
// weights are stored as [N,K] (layout nk), "N" that they are [K,N] (kn).
package producer

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Row is one product of a file.
type Row struct {
	Line int // from 1; the number of the event in a trace
	// Subject is the product. DType is empty and N and K are 0 where the file does not say them.
	Subject kernels.Subject
	// LayoutKnown says that the file tells the layout of the weights; else it is the usual one of the producer.
	LayoutKnown bool
	M           int
	// Calls is how often the product was computed.
	Calls int
	// US is the time of one launch in microseconds, 0 where the file has none.
	US float64
	// Device, Kernel and Label are as in a run; empty where the file does not say them.
	Device, Kernel, Label string
	// Out says why the row is left out; empty for a row that is read. The other fields are undefined then.
	Out string
}

// Format is the output of one program.
type Format struct {
	// Name is a short name, "hipblaslt-bench". Command is what writes such a file.
	Name, Command string
	// Reads and LeavesOut say what is read and which rows are not.
	Reads, LeavesOut string
	// Timed says that rows have times. A file without is a workload and no run.
	Timed bool

	starts func(head head) bool
	read   func(in io.Reader, take func(Row) error) error
}

// HeadBytes is how much of a file [Recognize] needs at most.
const HeadBytes = 64 << 10

// Limits of a file, far above what the programs write.
const (
	maxLine = 1 << 20
	maxRows = 1 << 22
	maxKept = 1 << 20 // rows of a format that are compared with each other
	maxSize = 1 << 31
	maxText = 4096
)

var (
	errLongLine = fmt.Errorf("its longest line exceeds %d bytes", maxLine)
	errManyRows = fmt.Errorf("more than %d rows", maxRows)
)

// Recognize returns the format of a file that begins with head; nil for a file of no known program. head is at most
// [HeadBytes] long.
func Recognize(start []byte) *Format {
	h := newHead(start)
	for i := range Formats {
		if Formats[i].starts(h) {
			return &Formats[i]
		}
	}
	return nil
}

// RecognizeShapes returns the format of plain shapes for a CSV whose first line has columns m, n and k, whatever else
// is in it; nil for other files.
func RecognizeShapes(start []byte) *Format {
	h := newHead(start)
	if h.json || len(h.lines) == 0 || !hasAll(columnNames(cells(h.lines[0])), []string{"m", "n", "k"}) {
		return nil
	}
	return &Formats[len(Formats)-1]
}

// Read gives each row of a file to take, in order, those that are left out included. The error is that of take or of
// in, or says why the file as a whole cannot be read.
func (f *Format) Read(in io.Reader, take func(Row) error) error {
	rows := 0
	return f.read(in, func(r Row) error {
		if rows++; rows > maxRows {
			return errManyRows
		}
		r.Calls = max(1, r.Calls)
		return take(r.checked())
	})
}

// checked leaves out a row that is no product.
func (r Row) checked() Row {
	if r.Out != "" {
		return Row{Line: r.Line, Out: r.Out}
	}
	s := r.Subject
	if s.DType == "" {
		s.DType = kernels.FP32
	}
	s.N, s.K = max(1, s.N), max(1, s.K) // which flags may give
	switch {
	case max(r.M, s.N, s.K, s.Products) > maxSize:
		r.Out = fmt.Sprintf("a size is above %d", int64(maxSize))
	case r.M < 1 || s.Validate() != nil || r.Subject.N < 0 || r.Subject.K < 0:
		r.Out = "its sizes or types are no product"
	case r.US != 0 && !(r.US >= leastUS && r.US <= mostUS):
		r.Out = "its time is that of no launch"
	case !printable(r.Device) || !printable(r.Kernel) || !printable(r.Label):
		r.Out = "a name is not text"
	}
	if r.Out != "" {
		return Row{Line: r.Line, Out: r.Out}
	}
	return r
}

// eachLine gives the lines of a file, without their ends, to take.
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
