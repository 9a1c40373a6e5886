package query

import (
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"
)

func (c *checker) check(text string) error {
	config := conf.CreateNew()
	config.MaxNodes = maxNodes
	tree, err := parser.ParseWithConfig(text, config)
	if err != nil {
		return plain(err)
	}
	ast.Walk(&tree.Node, c)
	return c.err
}

func letter(b byte) bool { return b == '_' || b|0x20 >= 'a' && b|0x20 <= 'z' }
func digit(b byte) bool  { return b >= '0' && b <= '9' }

// bare reports whether a byte is allowed in an unquoted word.
func bare(b byte) bool { return letter(b) || digit(b) || strings.IndexByte("-.:@/", b) >= 0 }

// span returns the length of the longest prefix of s within a byte class.
func span(s string, in func(byte) bool) int {
	n := 0
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}

// literal returns the length of the quoted text at the start of s, all of s if it is unterminated.
func literal(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && s[0] != '`':
			i++
		case s[i] == s[0]:
			return i + 1
		}
	}
	return len(s)
}

// normalise converts an expression to the library's syntax: = becomes ==, and words compared with a text get
// quotes.
func normalise(s string, isText func(name string) bool) string {
	var out strings.Builder
	of := ""             // the name before an operator
	words := false       // a word that follows is a text
	list, in := 0, false // brackets of a list of texts are open; one is expected
	for len(s) > 0 {
		n, as := 1, ""
		switch c := s[0]; {
		case c == ' ' || c == '\t' || c == '\n':
		case c == '"' || c == '\'' || c == '`':
			n, words, of = literal(s), false, ""
		case (words || list > 0) && (letter(c) || digit(c)):
			n = span(s, bare)
			as, words = `"`+s[:n]+`"`, false
		case letter(c):
			n = span(s, func(b byte) bool { return letter(b) || digit(b) })
			switch word := s[:n]; word {
			case "in":
				in, of = isText(of), ""
			case "not":
			default:
				of = word
			}
		case c == '=' || c == '!' && strings.HasPrefix(s, "!="):
			words, of = isText(of), ""
			switch {
			case strings.HasPrefix(s, "==") || c == '!':
				n = 2
			default:
				as = "=="
			}
		case (c == '<' || c == '>') && strings.HasPrefix(s[1:], "="):
			n, of = 2, ""
		case c == '[':
			if in || list > 0 {
				list++
			}
			in = false
		case c == ']':
			list = max(0, list-1)
		default:
			words, of = false, ""
		}
		if as == "" {
			as = s[:n]
		}
		out.WriteString(as)
		s = s[n:]
	}
	return out.String()
}
