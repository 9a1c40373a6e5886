package checkpoint

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// Error says why a model folder can't be loaded: a missing, truncated or invalid file, a missing or misshaped
// tensor, an unsupported field. All errors of this package have this type.
type Error = regular.ContentError

func refusef(path, format string, args ...any) error {
	return &Error{Path: path, Reason: fmt.Sprintf(format, args...)}
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
