package report

// ANSI sequences from the sixteen basic colors, which follow the reader's terminal theme.
const (
	ansiReset  = "\x1b[0m"
	ansiBold   = "\x1b[1m"
	ansiFaint  = "\x1b[2m"
	ansiRed    = "\x1b[31m"
	ansiGreen  = "\x1b[32m"
	ansiYellow = "\x1b[33m"
)

// Paint colors text by its tone, if the stream shows colors.
func Paint(s string, tone Tone, st Style) string {
	if !st.Colour || s == "" {
		return s
	}
	switch tone {
	case Good:
		return ansiGreen + s + ansiReset
	case Bad:
		return ansiRed + s + ansiReset
	case Open, Warned:
		return ansiYellow + s + ansiReset
	case Faint:
		return ansiFaint + s + ansiReset
	}
	return s
}

func bold(s string, st Style) string {
	if !st.Colour || s == "" {
		return s
	}
	return ansiBold + s + ansiReset
}
