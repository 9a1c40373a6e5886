package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results/draft"
)

// formatFlag is -o: a report format that is checked when the flag is parsed.
type formatFlag struct{ value *report.Format }

func (f formatFlag) String() string {
	if f.value == nil {
		return ""
	}
	return string(*f.value)
}
func (f formatFlag) Type() string { return "format" }
func (f formatFlag) Set(s string) error {
	parsed, err := report.ParseFormat(s)
	if err == nil {
		*f.value = parsed
	}
	return err
}

// outputFlag adds -o with the formats of everything, the table being the default.
func outputFlag(cmd *cobra.Command, value *report.Format) {
	formatsFlag(cmd, value, report.TextFormats())
}

// timingsFlag is outputFlag for a command that prints times, which Go's
// benchmark format can hold.
func timingsFlag(cmd *cobra.Command, value *report.Format) { formatsFlag(cmd, value, report.Formats()) }

// gatesFlag is timingsFlag, or outputFlag, for a command with a gate, whose checks pipelines read.
func gatesFlag(cmd *cobra.Command, value *report.Format, formats []report.Format) {
	formatsFlag(cmd, value, append(formats, report.GateFormats()...))
}

// formatsFlag adds -o and offers the formats.
func formatsFlag(cmd *cobra.Command, value *report.Format, formats []report.Format) {
	*value = report.Table
	var names []string
	for _, f := range formats {
		names = append(names, string(f))
	}
	cmd.Flags().VarP(formatFlag{value}, "output", "o", strings.Join(names, ", "))
	complete(cmd, "output", fixed(names...))
}

// refuseExisting returns an error when path is taken, unless force says that it
// may be replaced.
func refuseExisting(path string, force bool) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return devicef("write %q: %w", path, err)
	case info.IsDir():
		return devicef("write %q: it is a folder, expected the name of a file", path)
	case !info.Mode().IsRegular():
		return nil // a pipe or a device is written to, not replaced
	case !force:
		return hint(devicef("%q exists and is not overwritten", path), "give another name, or --force")
	}
	return nil
}

// writeFile writes a file that is either whole or not there: the content goes
// to a temporary file next to path, which takes path's place at the end. "-" is
// stdout; a pipe or a device is written to directly.
func (a *app) writeFile(path string, force bool, write func(io.Writer) error) (err error) {
	if path == "-" {
		return a.printed(write(a.stdout))
	}
	if err := refuseExisting(path, force); err != nil {
		return err
	}
	if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
		f, err := regular.OpenStream(path)
		if err != nil {
			return devicef("write %q: %w", path, err)
		}
		return wrapWrite(path, errors.Join(write(f), f.Close()))
	}
	return wrapWrite(path, replaceWhole(path, func(tmp string) error {
		f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Sync(), f.Close())
	}))
}

// replaceWhole lets write fill a temporary file next to path and moves it to
// path when that succeeded. Nothing is left behind when it did not.
func replaceWhole(path string, write func(tmp string) error) error {
	d, err := draft.File(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := write(d.Path()); err != nil {
		return err
	}
	return os.Rename(d.Path(), path)
}

// wrapWrite names the file in an error of writing it.
func wrapWrite(path string, err error) error {
	if err == nil || exitCode(err) != exitDevice {
		return err
	}
	return devicef("write %q: %w", path, withoutPath(err))
}

// withoutPath drops the operating system's own mention of a (temporary) path.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// plural prints a count with its noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, one)
	}
	return fmt.Sprintf("%d %s", n, many)
}

// isTerminal says whether stdout goes to a person.
func (a *app) isTerminal() bool {
	f, ok := a.stdout.w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
