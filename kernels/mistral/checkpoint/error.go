package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Error says why a model folder can't be loaded: a file that is missing, truncated or
// no model's, a tensor that is missing or of another shape, a field that is not
// understood. All errors of this package are of this type: the input is at fault.
type Error struct {
	Path   string // the file, or the folder
	Tensor string // empty when it is not about one
	Reason string
	// Hint is what the user can do about it, empty when there is nothing.
	Hint string
	// Err is what the system said, nil when nothing.
	Err error
}

// Error is one line: file, tensor, reason.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	if e.Tensor != "" {
		fmt.Fprintf(&b, ": tensor %q", e.Tensor)
	}
	b.WriteString(": ")
	b.WriteString(e.Reason)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns what the system said.
func (e *Error) Unwrap() error { return e.Err }

// HintText returns Hint.
func (e *Error) HintText() string { return e.Hint }

// refusef is the error of a file whose contents are at fault.
func refusef(path, format string, args ...any) error {
	return &Error{Path: path, Reason: fmt.Sprintf(format, args...)}
}

// systemError wraps an error of the system, without the path that it may repeat.
func systemError(path, tried string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return &Error{Path: path, Reason: tried, Err: err}
}

// named shows a name that a file chose: one that can't be printed as it is, or is long, in quotes.
func named(name string) string {
	quoted := strconv.Quote(name)
	if quoted == `"`+name+`"` && len(name) <= 80 {
		return name
	}
	return brief([]byte(quoted))
}

// brief shows a value of a file in an error, cut where it is long.
func brief(value []byte) string {
	const most = 80
	s := strings.Join(strings.Fields(string(value)), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
