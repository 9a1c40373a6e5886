package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results/importing"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/results/tunableop"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
)

type tableSource struct {
	path  string
	table *table.Table
	// tuned is the TunableOp file with the table's algorithms, or nil.
	tuned *tunableop.File
	// kernel is the reference kernel for those algorithms.
	kernel string
}

const runMagic = "SQLite format 3\x00"

// readSource reads a JSON table, the remedies of a run, or a TunableOp file, which is compared with kernel.
func (a *app) readSource(path, kernel string) (*tableSource, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, devicef("read table %q: %w", path, withoutPath(err))
	}
	defer f.Close()
	start := make([]byte, len(runMagic))
	n, err := io.ReadFull(f, start)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return nil, devicef("read table %q: %w", path, withoutPath(err))
	}
	start = start[:n]
	whole := io.MultiReader(bytes.NewReader(start), f) // a pipe can be read only once
	switch {
	case string(start) == runMagic:
		return a.tableOfRun(path)
	case tunableop.Detect(path, start):
		return a.tableOfTunableOp(path, whole, kernel)
	}
	t, err := parseTable(path, whole, sizeOf(f))
	return &tableSource{path: path, table: t}, err
}

// readTableOrRun is readSource without TunableOp files: they name no machine and no versions, so their table
// would be valid everywhere.
func (a *app) readTableOrRun(path string) (*tableSource, error) {
	s, err := a.readSource(path, defaultTuned)
	if err == nil && s.tuned != nil {
		return nil, hint(usagef("%s is a TunableOp file, which has no conditions: expected a JSON table or a run", path),
			"`gemmaudit table check` measures one")
	}
	return s, err
}

func sizeOf(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

func (a *app) tableOfRun(path string) (*tableSource, error) {
	run, err := a.openRun(path, false)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	found, err := verdict.Kept[remedy.Executed](run, verdict.StateSplits)
	if err != nil {
		return nil, err
	}
	if found == nil || found.Result == nil {
		return nil, hint(inconclusivef("%s has no executed remedies", path), "`%s` on its machine",
			commandLine([]string{"splits", path, "--execute"}))
	}
	result := found.Result
	if devices := result.Devices(); len(devices) > 1 {
		if !slices.Contains(devices, a.device) {
			return nil, usagef("--device: %s has remedies of %s, but a table is for one device: expected one of them", path,
				strings.Join(devices, ", "))
		}
		result = result.On(a.device)
	}
	t, err := remedy.BuildTable(run.Meta(), result)
	if err != nil {
		return nil, fmt.Errorf("build the table: %w", err)
	}
	if !slices.ContainsFunc(t.Series, func(s table.Series) bool { return len(s.Intervals) > 0 }) {
		return nil, hint(inconclusivef("%s has no executed remedy that pays", path), "`%s` searches every row, on its machine",
			commandLine([]string{"splits", path, "--execute", "--among", "all"}))
	}
	return &tableSource{path: path, table: t}, nil
}

func (a *app) tableOfTunableOp(path string, in io.Reader, kernel string) (*tableSource, error) {
	f, err := parseTunableOp(path, in)
	if err != nil {
		return nil, err
	}
	t, left := f.Table(kernel, a.now())
	a.noteLeft(path, "not checked", left)
	return &tableSource{path: path, table: t, tuned: f, kernel: kernel}, nil
}

func parseTunableOp(path string, in io.Reader) (*tunableop.File, error) {
	f, err := tunableop.Read(in)
	var wrong *tunableop.LineError
	if errors.As(err, &wrong) {
		return nil, &importing.Error{Path: path, Line: wrong.Line, Reason: wrong.Reason}
	}
	if err != nil {
		return nil, devicef("read %q: %w", path, withoutPath(err))
	}
	return f, nil
}

func (a *app) noteLeft(path, what string, left map[string]int) {
	for _, why := range slices.Sorted(maps.Keys(left)) {
		a.notef("%s: %d %s: %s", path, left[why], what, why)
	}
}
