package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// reader reads a table's JSON in one pass and stores only its position. It keeps the first error; later reads
// return zeros.
//
// Unlike encoding/json it requires exact field names, refuses repeated fields, and null only stands for
// lists: readers in other languages treat those differently.
type reader struct {
	data    []byte
	at      int
	err     error
	version int
	// words are short texts, which tables repeat.
	words map[string]string
}

const (
	longestWord = 64
	mostWords   = 1024
)

// field is an object's field, present in the format's versions from since on; 0 is the first.
type field struct {
	name     string
	since    int
	required bool
}

// presence is the set of an object's present fields by index.
type presence uint32

func (p presence) has(i int) bool { return p&(1<<i) != 0 }

func (r *reader) fail(format string, args ...any) {
	if r.err != nil {
		return
	}
	at := min(r.at, len(r.data))
	line := 1 + bytes.Count(r.data[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(r.data[:at], '\n')
	r.err = fmt.Errorf("line %d, column %d: %w", line, column, fmt.Errorf(format, args...))
	r.at = len(r.data)
}

// next returns the next byte after white space, 0 at the end.
func (r *reader) next() byte {
	for ; r.at < len(r.data); r.at++ {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (r *reader) take(c byte) bool {
	if r.next() != c {
		return false
	}
	r.at++
	return true
}

func (r *reader) wrong(expected string) {
	switch c := r.next(); {
	case r.at >= len(r.data):
		r.fail("the text ends, expected %s", expected)
	case c == '{':
		r.fail("an object, expected %s", expected)
	case c == '[':
		r.fail("a list, expected %s", expected)
	case c == '"':
		r.fail("text, expected %s", expected)
	default:
		end := r.at
		for end < len(r.data) && end-r.at < 40 && !bytes.ContainsRune([]byte(" \t\r\n,:]}"), rune(r.data[end])) {
			end++
		}
		r.fail("%.40q, expected %s", r.data[r.at:max(end, r.at+1)], expected)
	}
}

// object reads an object. to points to the values of its fields, in their order.
func (r *reader) object(what string, fields []field, to ...any) presence {
	var got presence
	r.members(what, func(name []byte) {
		i := slices.IndexFunc(fields, func(f field) bool { return string(name) == f.name })
		switch {
		case i < 0:
			r.fail("unknown field %.80q of %s", name, what)
		case fields[i].since > r.version:
			r.fail("schema %q has no field %q of %s", schemaOf(r.version), name, what)
		case got.has(i):
			r.fail("field %q of %s stands twice", name, what)
		default:
			got |= 1 << i
			r.value(fields[i].name, to[i])
		}
	})
	for i, f := range fields {
		if f.required && f.since <= r.version && !got.has(i) {
			r.fail("%s has no %s", what, f.name)
		}
	}
	return got
}

// members reads an object; read reads each value.
func (r *reader) members(what string, read func(name []byte)) {
	if !r.take('{') {
		r.wrong(what)
		return
	}
	if r.take('}') {
		return
	}
	for r.err == nil {
		if r.next() != '"' {
			r.wrong("a field of " + what)
			return
		}
		name := r.quoted()
		if !r.take(':') {
			r.wrong("a colon")
			return
		}
		read(name)
		if r.take('}') || r.err != nil {
			return
		}
		if !r.take(',') {
			r.wrong("a comma or the end of " + what)
		}
	}
}

func (r *reader) list(what string, most int, read func()) {
	if !r.take('[') {
		r.wrong(what)
		return
	}
	if r.take(']') {
		return
	}
	for n := 1; r.err == nil; n++ {
		if n > most {
			r.fail("more than %d elements in %s", most, what)
			return
		}
		read()
		if r.take(']') || r.err != nil {
			return
		}
		if !r.take(',') {
			r.wrong("a comma or the end of " + what)
		}
	}
}

// room returns the capacity for the next list: an upper bound of its elements from their minimum length. It
// does not check the text.
func (r *reader) room(most, shortest int) int {
	n, depth, from := 1, 0, r.at
	for at := r.at; at < len(r.data); at++ {
		switch r.data[at] {
		case '"':
			for at++; at < len(r.data) && r.data[at] != '"'; at++ {
				if r.data[at] == '\\' {
					at++
				}
			}
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth <= 0 {
				return min(n, most, (at-from)/shortest)
			}
		case ',':
			if depth == 1 {
				n++
			}
		}
	}
	return 0 // it has no end
}

func (r *reader) null() bool {
	if r.next() != 'n' || !bytes.HasPrefix(r.data[r.at:], []byte("null")) {
		return false
	}
	r.at += len("null")
	return true
}

// quoted reads a string. If it has escapes, the result is valid until the next call.
func (r *reader) quoted() []byte {
	from := r.at + 1
	escaped := false
	for at := from; at < len(r.data); at++ {
		switch c := r.data[at]; {
		case c == '"':
			r.at = at + 1
			if !escaped {
				return r.data[from:at]
			}
			var text string
			if err := json.Unmarshal(r.data[from-1:at+1], &text); err != nil {
				r.fail("not JSON: %w", err)
			}
			return []byte(text)
		case c == '\\':
			escaped = true
			at++
		case c < ' ':
			r.at = at
			r.fail("not JSON: control character %q in a text", c)
			return nil
		}
	}
	r.at = len(r.data)
	r.fail("the text ends within a quotation")
	return nil
}

func (r *reader) text(what string) string {
	if r.next() != '"' {
		r.wrong("text for " + what)
		return ""
	}
	text := r.quoted()
	if len(text) > longestWord {
		return string(text)
	}
	if s, ok := r.words[string(text)]; ok {
		return s
	}
	s := string(text)
	if len(r.words) < mostWords {
		r.words[s] = s
	}
	return s
}

// number reads a JSON number as text; whole means that it has neither fraction nor exponent.
func (r *reader) number(what, expected string) (text []byte, whole bool) {
	if c := r.next(); c != '-' && (c < '0' || c > '9') {
		r.wrong(expected + " for " + what)
		return nil, false
	}
	at := r.at
	digits := func() bool {
		from := at
		for at < len(r.data) && r.data[at] >= '0' && r.data[at] <= '9' {
			at++
		}
		return at > from
	}
	is := func(set string) bool {
		if at < len(r.data) && bytes.IndexByte([]byte(set), r.data[at]) >= 0 {
			at++
			return true
		}
		return false
	}
	whole = true
	is("-")
	ok := is("0") || digits()
	if ok && is(".") {
		whole, ok = false, digits()
	}
	if ok && is("eE") {
		is("+-")
		whole, ok = false, digits()
	}
	if !ok {
		r.wrong(expected + " for " + what)
		return nil, false
	}
	text, r.at = r.data[r.at:at], at
	return text, whole
}

// whole reads an integer with magnitude up to maxSize, without fraction and exponent.
func (r *reader) whole(what string) int { return int(r.wholeUpTo(what, maxSize)) }

func (r *reader) wholeUpTo(what string, most int64) int64 {
	from := r.at
	text, whole := r.number(what, "a whole number")
	if r.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if !whole || err != nil || n > most || n < -most {
		r.at = from
		r.fail("%s is %.40s, expected a whole number of at most %d", what, text, most)
		return 0
	}
	return n
}

func (r *reader) float(what string) float64 {
	from := r.at
	text, _ := r.number(what, "a number")
	if r.err != nil {
		return 0
	}
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		r.at = from
		r.fail("%s is %.40s, expected a number of at most %v", what, text, math.MaxFloat64)
		return 0
	}
	return x
}

func (r *reader) flag(what string) bool {
	r.next()
	for _, word := range []string{"true", "false"} {
		if bytes.HasPrefix(r.data[r.at:], []byte(word)) {
			r.at += len(word)
			return word == "true"
		}
	}
	r.wrong("true or false for " + what)
	return false
}

func (r *reader) skip() {
	if r.next() == '"' {
		r.quoted()
		return
	}
	for depth := 0; r.next() != 0; {
		switch c := r.data[r.at]; {
		case c == '"':
			if r.quoted(); r.err != nil {
				return
			}
			continue
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}' || c == ']'):
			return
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				r.at++
				return
			}
		}
		r.at++
	}
}

func (r *reader) end() {
	if r.next(); r.err == nil && r.at < len(r.data) {
		r.fail("there is more after the end of the table")
	}
}

func (r *reader) schema() string {
	schema, found := "", false
	r.members("a table", func(name []byte) {
		if string(name) != "schema" || found {
			r.skip()
			return
		}
		schema, found = r.text("schema"), true
	})
	if r.err == nil && !found {
		r.fail("there is no field schema: expected %q", Schema)
	}
	return schema
}

// newReader returns a reader for a text that may be a table.
func newReader(data []byte) (*reader, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%d bytes, expected at most %d", len(data), MaxBytes)
	}
	if !utf8.Valid(data) {
		return nil, errors.New("not JSON: it is not in UTF-8")
	}
	return &reader{data: data, words: map[string]string{}}, nil
}
