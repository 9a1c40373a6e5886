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
	"github.com/gemmaudit/gemmaudit/results/importing"
)

// The exit codes. Scripts depend on them.
const (
	exitClean        = 0
	exitGate         = 1 // a gate failed: confirmed findings, a regression, a table that no longer pays; takes precedence over 4
	exitUsage        = 2 // the command line is invalid, or a file that it names has wrong content
	exitDevice       = 3 // a device, a run file or the disk failed, a file can't be read
	exitInconclusive = 4 // measured, but no verdict was reached
	exitInterrupted  = 130
)

// hinter is an error with advice for its reader.
type hinter interface{ HintText() string }

// commandError is an error with its exit code and optional advice.
type commandError struct {
	code int
	err  error
	hint string
}

func (e *commandError) Error() string    { return e.err.Error() }
func (e *commandError) Unwrap() error    { return e.err }
func (e *commandError) HintText() string { return e.hint }

func usagef(format string, args ...any) error {
	return &commandError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

func usage(err error) error {
	if err == nil {
		return nil
	}
	return &commandError{code: inputCode(err), err: err}
}

func inputCode(err error) int {
	var system syscall.Errno
	var irregular *regular.Error
	if errors.As(err, &system) || errors.As(err, &irregular) {
		return exitDevice
	}
	return exitUsage
}

func devicef(format string, args ...any) error {
	return &commandError{code: exitDevice, err: fmt.Errorf(format, args...)}
}

// hint adds advice to err and keeps the exit code.
func hint(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &commandError{code: exitCode(err), err: err, hint: fmt.Sprintf(format, args...)}
}

func inconclusivef(format string, args ...any) error {
	return &commandError{code: exitInconclusive, err: fmt.Errorf(format, args...)}
}

func interruptedf(format string, args ...any) error {
	return &commandError{code: exitInterrupted, err: fmt.Errorf(format, args...)}
}

// interrupted is the outcome of an interrupted command that ended with err, which may be nil.
func interrupted(err error) error {
	if err == nil {
		return interruptedf("the command had finished, and its output is complete")
	}
	return &commandError{code: exitInterrupted, err: err}
}

// exitCode is the only place that converts an error to an exit code.
func exitCode(err error) int {
	var coded *commandError
	var unsupported *kernels.Unsupported
	var imported *importing.Error
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

// brokenPipe reports whether the reader of our output has closed it. This is no error: head(1) has read
// enough.
func brokenPipe(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
}

// printError writes err on one line, and its hint on a second one. Failed gates and interruptions are
// outcomes and are printed without the word error.
func printError(w io.Writer, err error) {
	label, text := "error: ", oneLine(err.Error())
	switch exitCode(err) {
	case exitGate:
		label = "gate: "
	case exitInconclusive:
		label = "inconclusive: "
	case exitInterrupted:
		label = "interrupted: "
		text = strings.TrimSuffix(text, context.Canceled.Error()) // the label already says so
	}
	fmt.Fprintf(w, "gemmaudit: %s\n", strings.TrimSuffix(label+text, ": "))
	if h := hintOf(err); h != "" {
		fmt.Fprintf(w, "hint: %s\n", oneLine(h))
	}
}

// outerHint returns the first hint in err's tree, depth first as in [errors.As]. Empty hints are skipped.
func outerHint(err error) string {
	if h, ok := err.(hinter); ok && h.HintText() != "" {
		return h.HintText()
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return outerHint(e.Unwrap())
	case interface{ Unwrap() []error }: // errors.Join, with an error of closing a file
		for _, one := range e.Unwrap() {
			if h := outerHint(one); h != "" {
				return h
			}
		}
	}
	return ""
}

func hintOf(err error) string {
	if h := outerHint(err); h != "" {
		return h
	}
	var format *results.FormatError
	var imported *importing.Error
	switch {
	case errors.As(err, &format):
		return format.Hint
	case errors.As(err, &imported) && imported.Untimed:
		return fmt.Sprintf("`%s` measures its products on this machine", commandLine([]string{"triage", imported.Path}))
	case errors.As(err, &imported):
		return imported.Hint
	}
	return ""
}

// oneLine joins the lines of a message and escapes terminal control characters, which may come from file
// names or damaged files.
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
