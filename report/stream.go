package report

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// Style describes the capabilities of a stream.
type Style struct {
	Colour  bool // ANSI colors
	Unicode bool // box-drawing lines, ×, →
	Live    bool // the cursor can move back to redraw a line
	Width   int  // columns, 0 for no limit
	// Spreadsheet protects CSV from spreadsheet formula injection: see [results.SpreadsheetCell].
	Spreadsheet bool
}

// Stream is a writer with the capabilities of its terminal.
type Stream struct {
	io.Writer
	Style Style
}

// NewStream determines what a writer can show from the writer and the environment (getenv may be nil). Color
// and animation need a terminal whose TERM is not "dumb"; any NO_COLOR turns color off; Unicode needs a UTF-8
// locale. Other writers get plain ASCII, COLUMNS wide if that is set.
func NewStream(w io.Writer, getenv func(string) string) *Stream {
	if s, ok := w.(*Stream); ok {
		return s
	}
	s := &Stream{Writer: w}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		s.Style.Width = terminalStyle(0, getenv).Width
		return s
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 0
	}
	s.Style = terminalStyle(width, getenv)
	return s
}

func terminalStyle(width int, getenv func(string) string) Style {
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	st := Style{Width: width}
	if n, err := strconv.Atoi(getenv("COLUMNS")); err == nil && n > 0 && width <= 0 {
		st.Width = n
	}
	// Narrower terminals cannot hold any table; let them wrap.
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

// StyleOf returns the capabilities of a [Stream], none for other writers.
func StyleOf(w io.Writer) Style {
	if s, ok := w.(*Stream); ok {
		return s.Style
	}
	return Style{}
}
