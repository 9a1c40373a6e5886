package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Error says why a model folder can't be loaded: a missing, truncated or invalid file, a missing or misshaped
// tensor, an unsupported field. All errors of this package have this type.
type Error struct {
	Path   string // the file or folder
	Tensor string // empty if no tensor is concerned
	Reason string
	// Hint is what the user can do; may be empty.
	Hint string
	// Err is the system's error; may be nil.
	Err error
}

// Error returns one line: file, tensor, reason.
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

// Unwrap returns the system's error.
func (e *Error) Unwrap() error { return e.Err }

// HintText returns Hint.
func (e *Error) HintText() string { return e.Hint }

func refusef(path, format string, args ...any) error {
	return &Error{Path: path, Reason: fmt.Sprintf(format, args...)}
}

// systemError wraps a system error without the path, which it may repeat.
func systemError(path, tried string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return &Error{Path: path, Reason: tried, Err: err}
}

// named formats a name from a file: quoted if it is long or unprintable.
func named(name string) string {
	quoted := strconv.Quote(name)
	if quoted == `"`+name+`"` && len(name) <= 80 {
		return name
	}
	return brief([]byte(quoted))
}

// brief formats a value from a file for an error, shortened if long.
func brief(value []byte) string {
	const most = 80
	s := strings.Join(strings.Fields(string(value)), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
