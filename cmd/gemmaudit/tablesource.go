package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/results/tunableop"
	"github.com/gemmaudit/gemmaudit/rules"
)

// tableSource is a lookup table, and what it was read from.
type tableSource struct {
	path  string
	table *table.Table
	// tuned is the file of TunableOp's, nil where it is none; its algorithms are the table's.
	tuned *tunableop.File
	// kernel is that beside which they are timed.
	kernel string
}

// runMagic begins every run file.
const runMagic = "SQLite format 3\x00"

// readSource reads a table: one in JSON, that of a run's executed remedies, or a file of
// TunableOp's, which is held against a kernel.
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
	whole := io.MultiReader(bytes.NewReader(start), f) // what comes through a pipe comes once
	switch {
	case string(start) == runMagic:
		return a.tableOfRun(path)
	case isTunableOp(path, start):
		return a.tableOfTunableOp(path, whole, kernel)
	}
	t, err := parseTable(path, whole, sizeOf(f))
	return &tableSource{path: path, table: t}, err
}

// readTableOrRun reads a table as readSource does, but for a file of TunableOp's: it names no machine and no versions, so that a
// table of it would hold everywhere.
func (a *app) readTableOrRun(path string) (*tableSource, error) {
	s, err := a.readSource(path, defaultTuned)
	if err == nil && s.tuned != nil {
		return nil, hint(usagef("%s is a file of TunableOp's, which names no machine that it is for: expected a table in JSON, or a run", path), "`gemmaudit table check` measures one")
	}
	return s, err
}

// csvHead begins a table that was written as CSV.
const csvHead = "kernel,dtype"

// isTunableOp says whether a file is one of TunableOp's by how it starts. A CSV is one although its start
// is damaged, so that what is wrong with its lines is told.
func isTunableOp(path string, start []byte) bool {
	start = bytes.TrimPrefix(start, []byte("\ufeff"))
	for _, word := range []string{"Validator,", "Gemm", "ScaledGemm"} {
		if bytes.HasPrefix(start, []byte(word)) {
			return true
		}
	}
	json := bytes.HasPrefix(bytes.TrimSpace(start), []byte("{"))
	return filepath.Ext(path) == ".csv" && len(start) > 0 && !json && !bytes.HasPrefix(start, []byte(csvHead))
}

// sizeOf is how long a file is, 0 where that can't be told.
func sizeOf(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// tableOfRun is the table of the remedies that a run holds.
func (a *app) tableOfRun(path string) (*tableSource, error) {
	run, err := a.openRun(path, false)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	found, err := kept[rules.ExecutedRemedies](run, stateSplits)
	if err != nil {
		return nil, err
	}
	if found == nil || found.Result == nil {
		return nil, hint(inconclusivef("%s holds no executed remedies", path), "`%s` on its machine", commandLine([]string{"splits", path, "--execute"}))
	}
	result := found.Result
	if devices := result.Devices(); len(devices) > 1 {
		if !slices.Contains(devices, a.device) {
			return nil, usagef("--device: %s holds remedies of %s, and a table is of one: expected one of them", path, strings.Join(devices, ", "))
		}
		result = result.On(a.device)
	}
	t, err := rules.BuildTable(run.Meta(), result)
	if err != nil {
		return nil, fmt.Errorf("build the table: %w", err)
	}
	if !slices.ContainsFunc(t.Series, func(s table.Series) bool { return len(s.Intervals) > 0 }) {
		return nil, hint(inconclusivef("%s holds no remedy that was executed and pays", path), "`%s` seeks them for every row, on its machine", commandLine([]string{"splits", path, "--execute", "--among", "all"}))
	}
	return &tableSource{path: path, table: t}, nil
}

// tableOfTunableOp is the table of a file of TunableOp's.
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
		return nil, &results.ImportError{Path: path, Line: wrong.Line, Reason: wrong.Reason}
	}
	if err != nil {
		return nil, devicef("read %q: %w", path, withoutPath(err))
	}
	return f, nil
}

// noteLeft says which lines or intervals of a file are left out of something, by why.
func (a *app) noteLeft(path, what string, left map[string]int) {
	for _, why := range slices.Sorted(maps.Keys(left)) {
		a.notef("%s: %d %s: %s", path, left[why], what, why)
	}
}
