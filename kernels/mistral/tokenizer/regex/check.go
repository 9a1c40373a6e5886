package regex

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/rangetable"
)

// Limits, far above those of any tokenizer.
const (
	maxLength = 1 << 14 // bytes of an expression
	maxDepth  = 50      // of groups
)

const (
	one  = `\\[rntfva !-/:;=?@[-\x60{-~]|\\u[[:xdigit:]]{4}|\\x\{(?:10|[[:xdigit:]])?[[:xdigit:]]{1,4}\}`
	many = `\\[sSdD]|\\[pP]\{\^?(?:[LMNPSZ]|L[ultmo]|M[nce]|N[dlo]|P[cdseifo]|S[mcko]|Z[slp]|C[cfo])\}`
	char = `(?:[^\\[\]-]|` + one + `)`
	span = char + `-` + char
)

// token is the start of what both engines read alike: a group or its end, an alternative, a repeat, a class,
// or one character.
var token = regexp.MustCompile(`^(?:\(\?(?:i?:|[=!>])|\(|[|).]|[?*+][?+]?|\{[0-9]{1,3}(?:,[0-9]{0,3})?\}|` +
	`\[\^?-?(?:` + span + `|` + char + `|` + many + `)+-?\]|` + one + `|` + many + `|[^\\^$?*+{}\[\]()|.])`)

var setOperator = regexp.MustCompile(`&&|~~`)

// unsupported explains what is no token, by its first byte.
var unsupported = map[byte]string{
	'^':  "anchors are not supported",
	'$':  "anchors are not supported",
	'\\': "this escape is not supported",
	'[':  "this class is not supported",
	'{':  "expected {n}, {n,} or {n,m} with numbers up to 999",
	']':  "expected a backslash in front",
	'}':  "expected a backslash in front",
}

// foldable is a character or class that both engines match alike in (?i:.
var foldable = regexp.MustCompile(`^(?:[[:ascii:]]|\[[^\\^[:^ascii:]]+\])$`)

// check rejects what the engines read in different ways and what the package does not support. It leaves
// other errors to the compiler.
func check(expression string) error {
	switch {
	case len(expression) > maxLength:
		return fmt.Errorf("has %d bytes, expected at most %d", len(expression), maxLength)
	case !utf8.ValidString(expression):
		return errors.New("is not UTF-8")
	}
	type group struct {
		start int
		fold  bool // the text around it is inside of (?i:
	}
	var groups []group
	fold, atom := false, -1 // atom is the start of what a repeat would repeat
	letter := ""            // the preceding letter of a (?i: in lower case
	for at, word := 0, ""; at < len(expression); at += len(word) {
		word = token.FindString(expression[at:])
		rest := expression[at+len(word):]
		switch {
		case word == "":
			return errorAt(expression, at, cmp.Or(unsupported[expression[at]], "not supported"))
		case word[0] == '[' && setOperator.MatchString(word):
			return errorAt(expression, at, "operations on classes are not supported")
		case word == "(" && rest != "" && strings.Contains("?*", rest[:1]):
			return errorAt(expression, at, "expected a group of (, (?:, (?i:, (?=, (?! or (?>")
		case word[0] == '(':
			if len(groups) == maxDepth {
				return errorAt(expression, at, fmt.Sprintf("more than %d groups in one another", maxDepth))
			}
			groups = append(groups, group{at, fold})
			fold, atom, letter = fold || word == "(?i:", -1, ""
		case word == ")":
			if len(groups) == 0 {
				return errorAt(expression, at, "expected a group that it closes")
			}
			last := groups[len(groups)-1]
			groups, fold, atom, letter = groups[:len(groups)-1], last.fold, last.start, ""
		case word == "|":
			atom, letter = -1, ""
		case strings.Contains("?*+{", word[:1]):
			switch empty, err := matchesEmpty(expression[max(atom, 0):at]); {
			case atom < 0:
				return errorAt(expression, at, "expected something in front that is repeated, and is no repeat")
			case word[0] == '{' && rest != "" && strings.Contains("?+*{", rest[:1]):
				return errorAt(expression, at, "what follows it is read in different ways, expected a group around it")
			case err != nil:
				return err
			case empty:
				return errorAt(expression, at, "repeats what may be empty")
			}
			atom = -1
		default:
			if fold && !foldable.MatchString(word) {
				return errorAt(expression, at, "expected only characters of ASCII in (?i:")
			}
			// Oniguruma also matches ß for ss and similar; Rust's engine does not.
			before := letter
			atom, letter = at, strings.ToLower(word)
			if fold && before != "" && strings.Contains("ff fi fl ss st", before+letter) {
				return errorAt(expression, at-1, "letters that are one character in another case are not supported in (?i:")
			}
		}
	}
	if n := len(groups); n > 0 {
		return errorAt(expression, groups[n-1].start, "expected a closing parenthesis")
	}
	return nil
}

func errorAt(expression string, at int, what string) error {
	rest := expression[at:]
	for i := range rest {
		if i >= 8 {
			rest = rest[:i]
			break
		}
	}
	return fmt.Errorf("%q at byte %d: %s", rest, at, what)
}

// spans finds the characters and ranges of an expression.
var spans = regexp.MustCompile(many + `|(` + char + `)(?:-(` + char + `))?`)

// named returns the characters above ASCII that an expression names other than by category.
func named(expression string) *unicode.RangeTable {
	var out unicode.RangeTable
	for _, s := range spans.FindAllStringSubmatch(expression, -1) {
		first := character(s[1])
		if last := max(first, character(s[2])); last >= utf8.RuneSelf {
			out.R32 = append(out.R32, unicode.Range32{Lo: uint32(first), Hi: uint32(last), Stride: 1})
		}
	}
	return rangetable.Merge(&out)
}

// character returns the character of a literal or \u or \x{, 0 for other escapes.
func character(text string) rune {
	if code, err := strconv.ParseUint(strings.Trim(text, `\ux{}`), 16, 32); err == nil && len(text) > 2 {
		return rune(code)
	}
	if text == "" || text[0] == '\\' {
		return 0
	}
	r, _ := utf8.DecodeRuneInString(text)
	return r
}
