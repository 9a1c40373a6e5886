package importing

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/results"
)

// byM is a CSV that supplements a run with a record for each M.
type byM[T any] struct {
	columns []string
	// headless means that a file may lack the header; then its columns are in order.
	headless bool
	// In messages, what names the required columns, more the others, lines what an empty file lacks, and known all.
	what, more, lines, known string

	valid func(f *csvFile) bool // whether the header has what is required besides m
	line  func(f *csvFile) (T, error)
	m     func(T) int
	check func([]T) error // of all records; may be nil
}

func (x byM[T]) open(path string) ([]T, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err // names the file and the action
	}
	defer f.Close()
	return x.read(path, f)
}

// read returns the records sorted by M; duplicate Ms are errors.
func (x byM[T]) read(path string, in io.Reader) ([]T, error) {
	f, err := newRecords(path, in, "a CSV with "+x.what, "")
	if err != nil {
		return nil, err
	}
	more, err := f.next()
	if err != nil {
		return nil, err
	}
	if !more {
		return nil, &Error{Path: path, Reason: "the file is empty: expected " + x.lines}
	}
	if _, err := strconv.ParseFloat(strings.TrimSpace(f.record[0]), 64); err == nil && x.headless {
		if len(f.record) != len(x.columns) {
			return nil, &Error{Path: path, Line: f.line,
				Reason: fmt.Sprintf("%d cells, expected %s", len(f.record), strings.Join(x.columns, ","))}
		}
		if err := f.setHeader(x.columns); err != nil {
			return nil, err
		}
	} else {
		if err := f.header(); err != nil {
			return nil, err
		}
		if !f.has("m") || !x.valid(f) {
			return nil, &Error{Path: path, Line: f.line,
				Reason: fmt.Sprintf("the header is %.200q, expected %s%s", strings.Join(f.names, ","), x.what, x.more)}
		}
		if ignored := f.ignored(x.columns); len(ignored) > 0 {
			return nil, &Error{Path: path, Line: f.line,
				Reason: fmt.Sprintf("unknown columns %.200s, expected %s", strings.Join(ignored, ", "), x.known)}
		}
		if more, err = f.next(); err != nil {
			return nil, err
		}
	}
	return x.sorted(f, more)
}

// sorted reads the lines from the current one on, if more.
func (x byM[T]) sorted(f *csvFile, more bool) (out []T, err error) {
	lines := map[int]int{}
	for ; more && err == nil; more, err = f.next() {
		t, err := x.line(f)
		if err != nil {
			return nil, err
		}
		m := x.m(t)
		if first, twice := lines[m]; twice {
			return nil, f.fail("m", "is already in line %d", first)
		}
		if len(out) == results.MaxMs {
			return nil, &Error{Path: f.path, Line: f.line, Reason: fmt.Sprintf("there are more than %d Ms", results.MaxMs)}
		}
		lines[m] = f.line
		out = append(out, t)
	}
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, &Error{Path: f.path, Reason: "there is no line after the header"}
	}
	slices.SortFunc(out, func(a, b T) int { return cmp.Compare(x.m(a), x.m(b)) })
	if x.check != nil {
		if err := x.check(out); err != nil {
			return nil, &Error{Path: f.path, Reason: err.Error()}
		}
	}
	return out, nil
}

// rows reads the M of a line.
func (f *csvFile) rows() (int, error) {
	m, err := f.dimension("m", 1)
	if err == nil && m > results.MaxM {
		err = f.fail("m", "is above %d", results.MaxM)
	}
	return m, err
}
