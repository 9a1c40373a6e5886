package report

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean removes characters that could move a cursor, change a color or reverse a line: control characters,
// Unicode format characters (bidirectional overrides, zero-width joiners) and invalid UTF-8. Line breaks and
// tabs become one space.
func Clean(s string) string {
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

// asciiFold writes this package's non-ASCII signs in ASCII for streams without Unicode. It leaves other text
// unchanged.
var asciiFold = strings.NewReplacer("×", "x", "→", "->", "–", "-", "≥", ">=", "≤", "<=", "±", "+-", "·", "-", "…", "...",
	"≈", "~", "µ", "u", "÷", "/")

// ForTerminal makes text safe to print, in ASCII unless unicodeOK is set.
func ForTerminal(s string, unicodeOK bool) string {
	s = Clean(s)
	if !unicodeOK {
		s = asciiFold.Replace(s)
	}
	return s
}

// unlink inserts zero-width spaces to stop GitHub from turning text into links, mentions or emoji, in escaped
// text too: @ names, mail addresses, URLs, issue numbers, emoji codes. s must be [Clean], so it contains no
// such space.
func unlink(s string) string {
	if !strings.ContainsAny(s, "@:#.-") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '.' && i >= 3 && strings.EqualFold(s[i-3:i], "www") {
			b.WriteString(noWidth) // before the dot: a reference after it would be parsed as a host
		}
		b.WriteByte(s[i])
		rest := s[i+1:]
		switch s[i] {
		case '@':
		case ':':
			if !strings.HasPrefix(rest, "//") && !emoji(rest) {
				continue
			}
		case '#':
			if !startsWithDigit(rest) {
				continue
			}
		case '-':
			if i < 2 || !strings.EqualFold(s[i-2:i], "GH") || !startsWithDigit(rest) {
				continue
			}
		default:
			continue
		}
		b.WriteString(noWidth)
	}
	return b.String()
}

const noWidth = "\u200b"

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// emoji reports whether s, the text after a colon, continues like an emoji name. Two digits, as in a time of
// day, do not.
func emoji(s string) bool {
	end := strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '+' || r == '-')
	})
	return end > 0 && s[end] == ':' && (end > 2 || strings.Trim(s[:end], "0123456789") != "")
}

var markdownEscaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;",
	"|", `\|`, "~", `\~`, "#", `\#`, "!", `\!`, "$", "&#36;", noWidth, "&#8203;",
)

// forMarkdown makes s plain Markdown text in the middle of a line.
func forMarkdown(s string) string {
	return markdownEscaper.Replace(unlink(strings.TrimSpace(Clean(s))))
}

// lineMarkdown makes s plain Markdown text at the start of a line, where a list, a heading or a rule might
// begin.
func lineMarkdown(s string) string {
	s = forMarkdown(s)
	digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
	switch {
	case s != "" && strings.ContainsRune("-+=", rune(s[0])):
		return `\` + s
	case digits > 0 && digits < len(s) && (s[digits] == '.' || s[digits] == ')') && (digits+1 == len(s) || s[digits+1] == ' '):
		return s[:digits] + `\` + s[digits:]
	}
	return s
}

// markdownCode makes s a code span, also if it contains backticks. It escapes pipes, which end a table cell
// even in a code span.
func markdownCode(s string) string {
	s = strings.TrimSpace(Clean(s))
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

func forHTML(s string) string { return html.EscapeString(Clean(s)) }

func htmlInMarkdown(s string) string { return html.EscapeString(unlink(Clean(s))) }

func fileName(s string) string {
	var b strings.Builder
	dash := false
	for _, r := range Clean(s) {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.' && b.Len() > 0, r == '_':
			b.WriteRune(r)
			dash = false
		case !dash && b.Len() > 0:
			b.WriteByte('-')
			dash = true
		}
		// Kernel names can be whole C++ signatures.
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
