package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results"
)

// The exit codes. They are part of the interface: scripts branch on them.
const (
	exitClean        = 0
	exitGate         = 1 // a gate failed: confirmed findings, a regression, a table that no longer pays; outranks 4
	exitUsage        = 2 // the command line can't be carried out as it stands, or a file that it names has wrong content
	exitDevice       = 3 // a device, a run file or the disk failed, a file can't be read
	exitInconclusive = 4 // measured, but no verdict could be reached
	exitInterrupted  = 130
)

// hinter is an error that knows what its reader can do about it.
type hinter interface{ HintText() string }

// commandError is an error with the exit code that it stands for and, where
// there is one, what to do about it.
type commandError struct {
	code int
	err  error
	hint string
}

func (e *commandError) Error() string    { return e.err.Error() }
func (e *commandError) Unwrap() error    { return e.err }
func (e *commandError) HintText() string { return e.hint }

// usagef is an error of the command line.
func usagef(format string, args ...any) error {
	return &commandError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// usage marks err as one of the command line, nil stays nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &commandError{code: inputCode(err), err: err}
}

// inputCode is the code of an error of what a command line names: usage, unless a file can't be read.
func inputCode(err error) int {
	var system syscall.Errno
	var irregular *regular.Error
	if errors.As(err, &system) || errors.As(err, &irregular) {
		return exitDevice
	}
	return exitUsage
}

// devicef is an error of a device, a run file or the disk.
func devicef(format string, args ...any) error {
	return &commandError{code: exitDevice, err: fmt.Errorf(format, args...)}
}

// hint adds what the reader can do to err; the exit code stays what it was.
func hint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &commandError{code: exitCode(err), err: err, hint: fmt.Sprintf(format, args...)}
}

// gatef says that a gate failed, and why in a few words.
func gatef(format string, args ...any) error {
	return &commandError{code: exitGate, err: fmt.Errorf(format, args...)}
}

// inconclusivef says that no verdict could be reached, and why.
func inconclusivef(format string, args ...any) error {
	return &commandError{code: exitInconclusive, err: fmt.Errorf(format, args...)}
}

// interruptedf says that the user stopped the command.
func interruptedf(format string, args ...any) error {
	return &commandError{code: exitInterrupted, err: fmt.Errorf(format, args...)}
}

// interrupted is the outcome of a command that was interrupted and ended with err, which may be nil, all the same.
func interrupted(err error) error {
	if err == nil {
		return interruptedf("the command was done by then, and its output is whole")
	}
	return &commandError{code: exitInterrupted, err: err}
}

// exitCode is the one place where an error becomes an exit code.
func exitCode(err error) int {
	var coded *commandError
	var unsupported *kernels.Unsupported
	var imported *results.ImportError
	switch {
	case err == nil:
		return exitClean
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &unsupported), errors.As(err, &imported):
		return exitUsage
	}
	return exitDevice
}

// brokenPipe is true when the reader of our output has gone, which is no error
// of ours: head(1) took what it wanted.
func brokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// printError writes err on one line, and its hint on a second one. A gate that
// failed and an interruption are outcomes, not errors, and are printed without
// that word.
func printError(w io.Writer, err error) {
	label, text := "error: ", oneLine(err.Error())
	switch exitCode(err) {
	case exitGate:
		label = "gate: "
	case exitInconclusive:
		label = "inconclusive: "
	case exitInterrupted:
		label = "interrupted: "
		text = strings.TrimSuffix(text, context.Canceled.Error()) // the label says that
	}
	fmt.Fprintf(w, "gemmaudit: %s\n", strings.TrimSuffix(label+text, ": "))
	if h := hintOf(err); h != "" {
		fmt.Fprintf(w, "hint: %s\n", oneLine(h))
	}
}

// hintOf returns the outermost hint in err's chain, empty when there is none.
func hintOf(err error) string {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if h, ok := e.(hinter); ok && h.HintText() != "" {
			return h.HintText()
		}
	}
	var format *results.FormatError
	var imported *results.ImportError
	switch {
	case errors.As(err, &format):
		return format.Hint
	case errors.As(err, &imported):
		return imported.Hint
	}
	return ""
}

// oneLine joins the lines of a message, as joined errors have several. What a damaged
// file or a file's name puts into it is escaped where a terminal would obey it.
func oneLine(s string) string {
	var b strings.Builder
	for _, line := range strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		for len(line) > 0 {
			r, n := utf8.DecodeRuneInString(line)
			if strconv.IsGraphic(r) && (r != utf8.RuneError || n > 1) {
				b.WriteString(line[:n])
			} else {
				quoted := strconv.Quote(line[:n])
				b.WriteString(quoted[1 : len(quoted)-1])
			}
			line = line[n:]
		}
	}
	return b.String()
}
