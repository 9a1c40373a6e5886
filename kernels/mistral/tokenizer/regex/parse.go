package regex

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits, far above those of any tokenizer.
const (
	maxLength = 1 << 14 // bytes of an expression
	maxDepth  = 50      // of groups
	maxCount  = 1000    // of {n,m}
	maxInsts  = 1 << 14 // of a program
)

type node struct {
	kind     kind
	set      *set
	min, max int  // of a repeat; max is -1 without a bound
	mode     mode // of a repeat
	subs     []*node
}

type kind uint8

const (
	isSet    kind = iota // one character of set
	isConcat             // subs in sequence
	isAlt                // the first of subs that leads to a match
	isRepeat             // repeats of subs[0]
	isAhead              // subs[0] follows; consumes nothing
	isNot                // subs[0] does not follow
	isAtomic             // the first match of subs[0] without backtracking
)

type mode uint8

const (
	greedy mode = iota
	lazy
	possessive
)

func (n *node) shortest() int {
	switch n.kind {
	case isSet:
		return 1
	case isConcat:
		sum := 0
		for _, s := range n.subs {
			sum = min(sum+s.shortest(), maxLength)
		}
		return sum
	case isAlt:
		least := maxLength
		for _, s := range n.subs {
			least = min(least, s.shortest())
		}
		return least
	case isRepeat:
		return min(n.min*n.subs[0].shortest(), maxLength)
	case isAtomic:
		return n.subs[0].shortest()
	}
	return 0
}

type parser struct {
	text  string
	at    int
	depth int
	fold  bool // inside of (?i:
}

func parse(expression string) (*node, error) {
	switch {
	case len(expression) > maxLength:
		return nil, fmt.Errorf("has %d bytes, expected at most %d", len(expression), maxLength)
	case !utf8.ValidString(expression):
		return nil, errors.New("is not UTF-8")
	}
	p := &parser{text: expression}
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if p.at < len(p.text) {
		return nil, p.errorf(p.at, "expected a group that it closes")
	}
	if n.shortest() == 0 {
		return nil, errors.New("matches the empty text, expected at least one character")
	}
	return n, nil
}

func (p *parser) errorf(at int, format string, args ...any) error {
	rest := p.text[at:]
	for i := range rest {
		if i >= 8 {
			rest = rest[:i]
			break
		}
	}
	return fmt.Errorf("%q at byte %d: %s", rest, at, fmt.Sprintf(format, args...))
}

func (p *parser) eat(s string) bool {
	if strings.HasPrefix(p.text[p.at:], s) {
		p.at += len(s)
		return true
	}
	return false
}

func (p *parser) alternatives() (*node, error) {
	var all []*node
	for {
		n, err := p.concat()
		if err != nil {
			return nil, err
		}
		all = append(all, n)
		if !p.eat("|") {
			break
		}
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return &node{kind: isAlt, subs: all}, nil
}

func (p *parser) concat() (*node, error) {
	n := &node{kind: isConcat}
	previous := byte(0) // the preceding letter of a (?i: in lower case
	for p.at < len(p.text) && p.text[p.at] != '|' && p.text[p.at] != ')' {
		start := p.at
		one, err := p.atom()
		if err != nil {
			return nil, err
		}
		if p.fold {
			// Oniguruma also matches ß for ss and similar; Rust's engine does not.
			letter := byte(0)
			if p.at == start+1 {
				letter = p.text[start] | 0x20
			}
			switch string([]byte{previous, letter}) {
			case "ff", "fi", "fl", "ss", "st":
				return nil, p.errorf(start-1, "letters that are one character in another case are not supported in (?i:")
			}
			previous = letter
		}
		if one, err = p.repeats(one); err != nil {
			return nil, err
		}
		n.subs = append(n.subs, one)
	}
	if len(n.subs) == 1 {
		return n.subs[0], nil
	}
	return n, nil
}

func (p *parser) atom() (*node, error) {
	start := p.at
	r, size := utf8.DecodeRuneInString(p.text[p.at:])
	switch r {
	case '(':
		return p.group()
	case '[':
		return p.class()
	case '.':
		p.at++
		return &node{kind: isSet, set: newSet(0, []span{{'\n', '\n'}}, true)}, nil
	case '\\':
		e, err := p.escape()
		if err != nil {
			return nil, err
		}
		return p.chars(start, e.categories, e.ranges, false)
	case '^', '$':
		return nil, p.errorf(start, "anchors are not supported")
	case '?', '*', '+', '{':
		return nil, p.errorf(start, "expected something in front that is repeated")
	case ']', '}':
		return nil, p.errorf(start, "expected a backslash in front")
	}
	p.at += size
	return p.chars(start, 0, []span{{r, r}}, false)
}

func (p *parser) chars(start int, categories uint32, ranges []span, negate bool) (*node, error) {
	if p.fold {
		plain := categories == 0 && !negate
		for _, r := range ranges {
			plain = plain && r.last < utf8.RuneSelf
		}
		if !plain {
			return nil, p.errorf(start, "expected only characters of ASCII in (?i:")
		}
		ranges = folded(ranges)
	}
	return &node{kind: isSet, set: newSet(categories, ranges, negate)}, nil
}

func (p *parser) group() (*node, error) {
	start, fold := p.at, p.fold
	var wrap kind
	switch {
	case p.eat("(?:"):
	case p.eat("(?i:"):
		p.fold = true
	case p.eat("(?="):
		wrap = isAhead
	case p.eat("(?!"):
		wrap = isNot
	case p.eat("(?>"):
		wrap = isAtomic
	case strings.HasPrefix(p.text[p.at:], "(?"), strings.HasPrefix(p.text[p.at:], "(*"):
		return nil, p.errorf(start, "expected a group of (, (?:, (?i:, (?=, (?! or (?>")
	default:
		p.at++
	}
	if p.depth++; p.depth > maxDepth {
		return nil, p.errorf(start, "more than %d groups in one another", maxDepth)
	}
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if !p.eat(")") {
		return nil, p.errorf(start, "expected a closing parenthesis")
	}
	p.depth--
	p.fold = fold
	if wrap != isSet {
		n = &node{kind: wrap, subs: []*node{n}}
	} else if n.kind == isSet {
		n = &node{kind: isConcat, subs: []*node{n}} // a separate group: (?:s)s is not ss
	}
	return n, nil
}

func (p *parser) repeats(n *node) (*node, error) {
	start := p.at
	least, most := 0, -1
	braces := false
	switch {
	case p.eat("?"):
		most = 1
	case p.eat("*"):
	case p.eat("+"):
		least = 1
	case p.eat("{"):
		end := strings.IndexByte(p.text[p.at:], '}')
		if end < 0 {
			return nil, p.errorf(start, "expected {n}, {n,} or {n,m}")
		}
		from, to, bounds := strings.Cut(p.text[p.at:p.at+end], ",")
		p.at += end + 1
		braces = true
		var ok bool
		if least, ok = count(from); !ok {
			return nil, p.errorf(start, "expected {n}, {n,} or {n,m} with numbers up to %d", maxCount)
		}
		switch {
		case !bounds:
			most = least
		case to != "":
			if most, ok = count(to); !ok || most < least {
				return nil, p.errorf(start, "expected {n}, {n,} or {n,m} with numbers up to %d", maxCount)
			}
		}
	default:
		return n, nil
	}
	r := &node{kind: isRepeat, min: least, max: most, subs: []*node{n}}
	switch {
	case p.at < len(p.text) && braces && strings.IndexByte("?*+{", p.text[p.at]) >= 0:
		return nil, p.errorf(start, "what follows it is read in different ways, expected a group around it")
	case p.eat("?"):
		r.mode = lazy
	case p.eat("+"):
		r.mode = possessive
	}
	if p.at < len(p.text) && strings.IndexByte("?*+{", p.text[p.at]) >= 0 {
		return nil, p.errorf(start, "a repeat of a repeat, expected a group around the first")
	}
	if n.shortest() == 0 {
		return nil, p.errorf(start, "repeats what may be empty")
	}
	return r, nil
}

func count(digits string) (int, bool) {
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && n <= maxCount && digits[0] != '+'
}
