package regex

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// An element is what an escape or a part of a class stands for.
type element struct {
	categories uint32
	ranges     []span
	single     bool // one character, which may begin or end a range
}

func one(r rune) element { return element{ranges: []span{{r, r}}, single: true} }

var controls = map[byte]rune{'r': '\r', 'n': '\n', 't': '\t', 'f': '\f', 'v': '\v', 'a': '\a'}

func (p *parser) escape() (element, error) {
	start := p.at
	p.at++
	if p.at == len(p.text) {
		return element{}, p.errorf(start, "expected a character behind it")
	}
	c := p.text[p.at]
	p.at++
	if r, ok := controls[c]; ok {
		return one(r), nil
	}
	switch c {
	case 's':
		return element{ranges: blanks}, nil
	case 'S':
		return element{ranges: others(blanks)}, nil
	case 'd':
		return element{categories: categoryMask("Nd")}, nil
	case 'D':
		return element{categories: ^categoryMask("Nd")}, nil
	case 'p', 'P':
		return p.property(start, c == 'P')
	case 'u', 'x':
		return p.number(start, c)
	}
	if c < utf8.RuneSelf && strings.IndexByte(" !\"#$%&'()*+,-./:;=?@[\\]^_`{|}~", c) >= 0 {
		return one(rune(c)), nil
	}
	return element{}, p.errorf(start, "this escape is not supported")
}

func (p *parser) property(start int, negate bool) (element, error) {
	name := ""
	if p.eat("{") {
		if p.eat("^") {
			negate = !negate
		}
		end := strings.IndexByte(p.text[p.at:], '}')
		if end >= 0 {
			name = p.text[p.at : p.at+end]
			p.at += end + 1
		}
	}
	mask := categoryMask(name)
	if mask == 0 || name == "C" || name == "Cn" || name == "Cs" {
		return element{}, p.errorf(start, "expected a general category of one or two letters, as in \\p{Lu} or \\p{N}")
	}
	if negate {
		mask = ^mask
	}
	return element{categories: mask}, nil
}

func (p *parser) number(start int, c byte) (element, error) {
	digits := ""
	switch {
	case c == 'u' && len(p.text)-p.at >= 4:
		digits = p.text[p.at : p.at+4]
		p.at += 4
	case c == 'x' && p.eat("{"):
		if end := strings.IndexByte(p.text[p.at:], '}'); end >= 0 {
			digits = p.text[p.at : p.at+end]
			p.at += end + 1
		}
	}
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || n > lastRune || n >= 0xD800 && n < 0xE000 {
		return element{}, p.errorf(start, "expected a character as \\uHHHH or \\x{H…}")
	}
	return one(rune(n)), nil
}

func (p *parser) class() (*node, error) {
	start := p.at
	p.at++
	negate := p.eat("^")
	var categories uint32
	var ranges []span
	for first := true; ; first = false {
		if p.at == len(p.text) {
			return nil, p.errorf(start, "expected a closing bracket")
		}
		if p.text[p.at] == ']' {
			if first {
				return nil, p.errorf(start, "expected characters in the class")
			}
			p.at++
			break
		}
		e, err := p.member(first)
		if err != nil {
			return nil, err
		}
		if e.single && p.at+1 < len(p.text) && p.text[p.at] == '-' && p.text[p.at+1] != ']' {
			p.at++
			to, err := p.member(false)
			if err != nil {
				return nil, err
			}
			if !to.single || to.ranges[0].first < e.ranges[0].first {
				return nil, p.errorf(start, "expected ranges from a character to a later one")
			}
			e.ranges = []span{{e.ranges[0].first, to.ranges[0].first}}
		}
		categories |= e.categories
		ranges = append(ranges, e.ranges...)
	}
	return p.chars(start, categories, ranges, negate)
}

func (p *parser) member(first bool) (element, error) {
	rest := p.text[p.at:]
	if rest == "" {
		return element{}, p.errorf(p.at, "expected a closing bracket")
	}
	switch rest[0] {
	case '\\':
		return p.escape()
	case '[':
		return element{}, p.errorf(p.at, "classes in classes are not supported")
	case ']':
		return element{}, p.errorf(p.at, "expected a backslash in front")
	case '-':
		if !first && !strings.HasPrefix(rest, "-]") {
			return element{}, p.errorf(p.at, "expected a backslash in front")
		}
	}
	for _, operator := range []string{"&&", "--", "~~"} {
		if strings.HasPrefix(rest, operator) {
			return element{}, p.errorf(p.at, "operations on classes are not supported")
		}
	}
	r, size := utf8.DecodeRuneInString(rest)
	p.at += size
	return one(r), nil
}
