package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gemmaudit/gemmaudit/kernels/mistral/tokenizer/regex"
)

// added are the tokens found in a text before the model sees it: raw in the original text, normalized in its
// normal form.
type added struct {
	raw, normalized matcher
}

type flags struct {
	word        bool // only without adjacent letter, digit or mark
	left, right bool // white space on that side belongs to it
}

type matcher struct {
	begins [256]bool        // first bytes of tokens
	next   map[uint64]int32 // node and byte to node; 0 is the root
	ends   []int32          // per node, the id of the token that ends there, or -1
	flags  map[int32]flags
}

// add makes the matcher find pattern as id and returns -1. If pattern already has an id, it returns that and
// changes nothing.
func (m *matcher) add(pattern string, id int32, f flags) int32 {
	if m.next == nil {
		m.next, m.flags, m.ends = map[uint64]int32{}, map[int32]flags{}, []int32{-1}
	}
	node := int32(0)
	for i := range len(pattern) {
		key := uint64(node)<<8 | uint64(pattern[i])
		child, ok := m.next[key]
		if !ok {
			child = int32(len(m.ends))
			m.ends = append(m.ends, -1)
			m.next[key] = child
		}
		node = child
	}
	if m.ends[node] >= 0 {
		return m.ends[node]
	}
	m.ends[node], m.flags[id] = id, f
	m.begins[pattern[0]] = true
	return -1
}

// longest returns the id and length of the longest token at the start of text, or -1.
func (m *matcher) longest(text string) (id int32, length int) {
	id = -1
	node := int32(0)
	for i := range len(text) {
		child, ok := m.next[uint64(node)<<8|uint64(text[i])]
		if !ok {
			break
		}
		node = child
		if m.ends[node] >= 0 {
			id, length = m.ends[node], i+1
		}
	}
	return id, length
}

// cut calls yield for each added token in text, and with id -1 for the text between them.
func (m *matcher) cut(text string, yield func(id int32, start, stop int)) {
	done := 0 // end of the yielded text
	for at := 0; at < len(text); {
		if !m.begins[text[at]] {
			at++
			continue
		}
		id, length := m.longest(text[at:])
		if id < 0 {
			at++
			continue
		}
		start, stop := at, at+length
		at = stop // a dropped match is not searched again
		f := m.flags[id]
		if f.word && (endsInWord(text[:start]) || beginsWord(text[stop:])) {
			continue
		}
		// A preceding token may already have taken white space that is part of this one.
		if f.left {
			start = done + len(strings.TrimRightFunc(text[done:max(start, done)], unicode.IsSpace))
		}
		if f.right {
			rest := text[max(stop, done):]
			stop = len(text) - len(strings.TrimLeftFunc(rest, unicode.IsSpace))
		}
		if done < start {
			yield(-1, done, start)
		}
		if start < stop {
			yield(id, start, stop)
		}
		done = stop
	}
	if done < len(text) {
		yield(-1, done, len(text))
	}
}

func endsInWord(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(text)
	return text != "" && regex.IsWord(r)
}

func beginsWord(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return text != "" && regex.IsWord(r)
}
