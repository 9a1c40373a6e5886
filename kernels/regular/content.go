package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// ContentError says why the content of a file or folder can't be used.
type ContentError struct {
	Path   string
	Tensor string // empty if no tensor is concerned
	Reason string
	// Hint is what the user can do; may be empty.
	Hint string
	// Err is the system's error, or a field's problem; may be nil.
	Err error
}

// Error returns one line: file, tensor, reason.
func (e *ContentError) Error() string {
	var parts []string
	if e.Path != "" {
		parts = append(parts, e.Path)
	}
	if e.Tensor != "" {
		parts = append(parts, fmt.Sprintf("tensor %q", e.Tensor))
	}
	if e.Reason != "" {
		parts = append(parts, e.Reason)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns Err.
func (e *ContentError) Unwrap() error { return e.Err }

// HintText returns Hint.
func (e *ContentError) HintText() string { return e.Hint }

// SystemError wraps an error of the system, without the path that it may repeat, in a [*ContentError].
func SystemError(path, tried string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return &ContentError{Path: path, Reason: tried, Err: err}
}

// Read reads a file of at most most bytes. Its errors are a [*ContentError].
func Read(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path) // before opening, which would wait for a pipe's writer
	switch {
	case err != nil:
		return nil, SystemError(path, "can't be read", err)
	case !info.Mode().IsRegular():
		return nil, &ContentError{Path: path, Reason: "not a file"}
	case info.Size() > most:
		return nil, &ContentError{Path: path, Reason: fmt.Sprintf("%d bytes long, expected at most %d", info.Size(), most)}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, SystemError(path, "can't be read", err)
	}
	return data, nil
}
