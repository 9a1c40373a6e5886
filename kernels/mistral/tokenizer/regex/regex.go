package regex

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
	"github.com/dlclark/regexp2/v2/syntax"
)

// Pattern is a compiled regular expression. It is immutable and safe for concurrent use.
type Pattern struct {
	engine *regexp2.Regexp
	named  *unicode.RangeTable
}

// Compile compiles a regular expression. Its error names the place of an unsupported construct.
func Compile(expression string) (*Pattern, error) {
	if err := check(expression); err != nil {
		return nil, err
	}
	engine, err := compile(expression)
	if err != nil {
		return nil, err
	}
	if empty, err := matchesEmpty(expression); empty || err != nil {
		return nil, cmp.Or(err, errors.New("matches the empty text, expected at least one character"))
	}
	return &Pattern{engine, named(expression)}, nil
}

// compile returns an engine without limits, so matching cannot fail.
func compile(expression string) (*regexp2.Regexp, error) {
	expression = strings.NewReplacer(`\\`, `\\`, `\p{^`, `\P{`, `\P{^`, `\p{`).Replace(expression)
	engine, err := regexp2.Compile(expression, regexp2.OptionMaxBacktrackingStackSize(-1))
	var wrong *syntax.Error
	if errors.As(err, &wrong) { // its text repeats the expression
		err = errors.New(wrong.Code.String())
	}
	return engine, err
}

func matchesEmpty(expression string) (bool, error) {
	engine, err := compile(expression)
	if err != nil {
		return false, err
	}
	return engine.MatchString("")
}

// Each splits text, which must be UTF-8, into the pattern's matches, leftmost first, and the text between
// them. It calls yield for each non-empty part in order; match tells the two apart.
func (p *Pattern) Each(text string, yield func(start, stop int, match bool)) {
	runes := make([]rune, 0, len(text))
	for _, r := range text {
		if r >= utf8.RuneSelf && !unicode.Is(p.named, r) {
			r = known(r)
		}
		runes = append(runes, r)
	}
	passed, at := 0, 0 // runes, and their bytes
	offset := func(rune int) int {
		for ; passed < rune; passed++ {
			_, size := utf8.DecodeRuneInString(text[at:])
			at += size
		}
		return at
	}
	done := 0
	part := func(stop int, match bool) {
		if done < stop {
			yield(done, stop, match)
		}
		done = stop
	}
	err := p.engine.FindRunesMatches(runes, -1, func(m regexp2.MatchView) bool {
		index, length, _ := m.GroupRange(0)
		part(offset(index), false)
		part(offset(index+length), true)
		return true
	})
	if err != nil {
		panic(fmt.Sprintf("regular expression %s: %v", p.engine, err)) // it has neither a time nor a stack limit
	}
	part(len(text), false)
}
