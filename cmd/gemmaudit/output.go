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

// formatFlag is -o: a report format, checked at parsing.
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

// outputFlag adds -o with the formats that hold all data; table is the default.
func outputFlag(cmd *cobra.Command, value *report.Format) {
	formatsFlag(cmd, value, report.TextFormats())
}

// timingsFlag is outputFlag plus Go's benchmark format, for commands that print times.
func timingsFlag(cmd *cobra.Command, value *report.Format) { formatsFlag(cmd, value, report.Formats()) }

// gatesFlag is timingsFlag, or outputFlag, plus the formats for pipelines, for commands with a gate.
func gatesFlag(cmd *cobra.Command, value *report.Format, formats []report.Format) {
	formatsFlag(cmd, value, append(formats, report.GateFormats()...))
}

func formatsFlag(cmd *cobra.Command, value *report.Format, formats []report.Format) {
	*value = report.Table
	var names []string
	for _, f := range formats {
		names = append(names, string(f))
	}
	cmd.Flags().VarP(formatFlag{value}, "output", "o", strings.Join(names, ", "))
	complete(cmd, "output", fixed(names...))
}

// imagesFlag adds --images with a default.
func imagesFlag(cmd *cobra.Command, images *string, usual string) {
	addFlag(cmd, images, "images", usual, "plot formats: all, or some of png,svg,pdf",
		listOf(func() []string { return []string{"all", "png", "svg", "pdf"} }))
}

func errExists(path, instead string) error {
	return hint(devicef("%q exists and is not overwritten", path), "%s", instead)
}

func refuseExisting(path string, force bool) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return devicef("write %q: %w", path, err)
	case info.IsDir():
		return devicef("write %q: is a folder, expected a file name", path)
	case !info.Mode().IsRegular():
		return nil // a pipe or a device is not replaced
	case !force:
		return errExists(path, "give another name, or --force")
	}
	return nil
}

// writeFile writes a file completely or not at all: the content goes to a temporary file next to path, which
// is then renamed. "-" is stdout; pipes and devices are written directly.
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

// replaceWhole lets write fill a temporary file next to path, and renames it to path on success or removes
// it.
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

func wrapWrite(path string, err error) error {
	if err == nil || exitCode(err) != exitDevice {
		return err
	}
	return devicef("write %q: %w", path, withoutPath(err))
}

// withoutPath removes the operating system's mention of a (temporary) path.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

func plural(n int, one, many string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, one)
	}
	return fmt.Sprintf("%d %s", n, many)
}

// isTerminal reports whether a stream of the process is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
