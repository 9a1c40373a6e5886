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

// unlink breaks what GitHub makes links, mentions and signs of wherever it stands in text, escaped
// or not, by a space of no width: names after an @, mail addresses, URLs, numbers of issues, emoji.
// s is [clean], and so has no such space of its own.
func unlink(s string) string {
	if !strings.ContainsAny(s, "@:#.-") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '.' && i >= 3 && strings.EqualFold(s[i-3:i], "www") {
			b.WriteString(noWidth) // before the dot: a reference to it behind would be taken for a host
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

// noWidth is a space of no width.
const noWidth = "\u200b"

func startsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// emoji says whether s goes on as the name of an emoji does behind its first colon. Two digits,
// as in a time of day, are none.
func emoji(s string) bool {
	end := strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '+' || r == '-')
	})
	return end > 0 && s[end] == ':' && (end > 2 || strings.Trim(s[:end], "0123456789") != "")
}

// markdownEscaper takes away the meaning that characters have in GitHub's
// Markdown, inside and outside of tables.
var markdownEscaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;",
	"|", `\|`, "~", `\~`, "#", `\#`, "!", `\!`, "$", "&#36;", noWidth, "&#8203;",
)

// forMarkdown makes s plain text in Markdown, behind something else on its line.
func forMarkdown(s string) string {
	return markdownEscaper.Replace(unlink(strings.TrimSpace(clean(s))))
}

// lineMarkdown makes s plain text in Markdown that begins a line, where a list, a heading or a
// rule might begin.
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

// htmlInMarkdown makes s text in HTML that stands in Markdown.
func htmlInMarkdown(s string) string { return html.EscapeString(unlink(clean(s))) }

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
