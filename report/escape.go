package report

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean removes what could move a cursor, change a colour or reverse a line:
// control characters, Unicode's format characters (bidirectional overrides,
// zero-width joins) and invalid UTF-8. Line breaks and tabs become one space.
func clean(s string) string {
	plain := true
	for i := 0; i < len(s); i++ {
		if s[i] < 0x20 || s[i] >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r' || r == '\u2028' || r == '\u2029':
			return ' '
		case r == utf8.RuneError, unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s)
}

// asciiFold writes the few signs that this package uses in ASCII, for streams
// that can't show them. Other text is left as it is.
var asciiFold = strings.NewReplacer("×", "x", "→", "->", "–", "-", "≥", ">=", "≤", "<=", "±", "+-", "·", "-", "…", "...", "≈", "~", "µ", "u", "÷", "/")

// forTerminal makes s safe for a terminal or a plain file.
func forTerminal(s string, unicodeOK bool) string {
	s = clean(s)
	if !unicodeOK {
		s = asciiFold.Replace(s)
	}
	return s
}

// markdownEscaper takes away the meaning that characters have in GitHub's
// Markdown, inside and outside of tables.
var markdownEscaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;",
	"|", `\|`, "~", `\~`, "#", `\#`, "!", `\!`,
	// A name after an @ would notify its bearer, a scheme would become a link.
	"@", "&#64;", "://", ":&#8203;//",
)

// forMarkdown makes s plain text in Markdown.
func forMarkdown(s string) string { return markdownEscaper.Replace(clean(s)) }

// markdownCode makes s a code span, whatever backticks it contains. Inside
// tables a pipe ends the cell even in a code span, so it is escaped there.
func markdownCode(s string) string {
	s = strings.TrimSpace(clean(s))
	if s == "" {
		return ""
	}
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	s = strings.ReplaceAll(s, "|", `\|`)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// forHTML makes s text in HTML or a quoted attribute.
func forHTML(s string) string { return html.EscapeString(clean(s)) }

// fileName turns a name into one that every file system takes.
func fileName(s string) string {
	var b strings.Builder
	dash := false
	for _, r := range clean(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.' && b.Len() > 0, r == '_':
			b.WriteRune(r)
			dash = false
		case !dash && b.Len() > 0:
			b.WriteByte('-')
			dash = true
		}
		// Names of kernels can be whole C++ signatures.
		if b.Len() >= 100 {
			break
		}
	}
	name := strings.Trim(b.String(), "-.")
	if name == "" {
		return "unnamed"
	}
	return name
}
