package worker

import (
	"strings"
	"unicode"
)

// mostText is the longest text of a worker that is shown, in bytes.
const mostText = 400

// oneLine makes a worker's text printable.
func oneLine(s string) string {
	if len(s) > mostText {
		s = s[:mostText]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?")))
}
