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

// reader walks once over the JSON of a table, from its start to its end. It knows what it is to meet
// next, and so holds nothing but its place. The first thing that is wrong stays its error; all
// reading after that yields zeros.
//
// Unlike encoding/json it takes a field under its exact name, once, and no null for what is
// not a list: readers in other languages differ in what they make of those.
type reader struct {
	data    []byte
	at      int
	err     error
	version int
	// words are short texts that were read, which tables repeat.
	words map[string]string
}

const (
	longestWord = 64
	mostWords   = 1024
)

// field is a field of an object in the versions of the format from since on; 0 is the first.
type field struct {
	name     string
	since    int
	required bool
}

// presence is which of an object's fields were there, by their place in the list of fields.
type presence uint32

func (p presence) has(i int) bool { return p&(1<<i) != 0 }

// fail keeps the first complaint, with the place up to which the text was read.
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

// next is the byte that comes after white space, 0 at the end.
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

// take passes over a byte if it is the next.
func (r *reader) take(c byte) bool {
	if r.next() != c {
		return false
	}
	r.at++
	return true
}

// wrong says that something else was expected than what comes next.
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

// object reads an object and has read read the value of each field, given by its place in fields.
func (r *reader) object(what string, fields []field, read func(i int)) presence {
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
			read(i)
		}
	})
	for i, f := range fields {
		if f.required && f.since <= r.version && !got.has(i) {
			r.fail("%s has no %s", what, f.name)
		}
	}
	return got
}

// members reads an object and has read read each value.
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

// list reads a list of at most most elements, each of which read reads.
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

// room is for how many elements of a list that comes next there is to be room: how many there are, as long as each
// has the text that the shortest one needs. Nothing of the text is checked.
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

// null passes over a null.
func (r *reader) null() bool {
	if r.next() != 'n' || !bytes.HasPrefix(r.data[r.at:], []byte("null")) {
		return false
	}
	r.at += len("null")
	return true
}

// quoted reads a text that comes next. The result is valid until the next call where it has escapes.
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

// text reads a text. Names repeat in tables, and are the same string in memory.
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

// number passes over a number of JSON and returns it; whole says that it has neither fraction nor exponent.
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

// whole reads a whole number of at most maxSize either way, written without fraction and exponent.
func (r *reader) whole(what string) int {
	from := r.at
	text, whole := r.number(what, "a whole number")
	if r.err != nil {
		return 0
	}
	n, err := strconv.Atoi(string(text))
	if !whole || err != nil || n > maxSize || n < -maxSize {
		r.at = from
		r.fail("%s is %.40s, expected a whole number of at most %d", what, text, maxSize)
		return 0
	}
	return n
}

// float reads a number.
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

// flag reads true or false.
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

// skip passes over a value that is read later, as far as it has an end.
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

// end wants nothing more to come.
func (r *reader) end() {
	if r.next(); r.err == nil && r.at < len(r.data) {
		r.fail("there is more after the end of the table")
	}
}

// schema reads which version the table is of, wherever its field stands.
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

// newReader is the reader of a text that can be a table.
func newReader(data []byte) (*reader, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%d bytes, expected at most %d", len(data), MaxBytes)
	}
	if !utf8.Valid(data) {
		return nil, errors.New("not JSON: it is not in UTF-8")
	}
	return &reader{data: data, words: map[string]string{}}, nil
}
