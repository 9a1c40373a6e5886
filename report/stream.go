package report

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// Style is what a stream can show.
type Style struct {
	Colour  bool // ANSI colours
	Unicode bool // box-drawing lines, ×, →
	Live    bool // the cursor can be moved back, so that a line can be redrawn
	Width   int  // columns, 0 for no limit
	// Spreadsheet says that CSV goes to a spreadsheet: see [results.SpreadsheetCell].
	Spreadsheet bool
}

// Stream is a writer together with what the terminal behind it can show.
type Stream struct {
	io.Writer
	Style Style
}

// NewStream looks at a writer and at the environment (getenv may be nil) and
// decides what it can show. Colour and animation need a terminal whose TERM is
// not "dumb"; NO_COLOR, when set to anything, takes colour away; Unicode needs a
// UTF-8 locale. Whatever is not a terminal gets plain ASCII without a width.
func NewStream(w io.Writer, getenv func(string) string) *Stream {
	if s, ok := w.(*Stream); ok {
		return s
	}
	s := &Stream{Writer: w}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 0
	}
	s.Style = terminalStyle(width, getenv)
	return s
}

// terminalStyle is the style of a terminal of the given width.
func terminalStyle(width int, getenv func(string) string) Style {
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	st := Style{Width: width}
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 && width <= 0 {
		st.Width = n
	}
	// Fewer columns than this can't hold any table; let the terminal wrap.
	if st.Width < 20 {
		st.Width = 0
	}
	if getenv("TERM") == "dumb" {
		return st
	}
	st.Live = true
	st.Colour = getenv("NO_COLOR") == ""
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := getenv(name); locale != "" {
			upper := strings.ToUpper(locale)
			st.Unicode = strings.Contains(upper, "UTF-8") || strings.Contains(upper, "UTF8")
			break
		}
	}
	return st
}

// styleOf is the style of a writer: a Stream's own, plain for all others.
func styleOf(w io.Writer) Style {
	if s, ok := w.(*Stream); ok {
		return s.Style
	}
	return Style{}
}
