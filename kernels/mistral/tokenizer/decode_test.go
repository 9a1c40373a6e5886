package tokenizer

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func stream(t interface{ Fatalf(string, ...any) }, s *Stream, ids []int32) string {
	var text strings.Builder
	for _, id := range ids {
		part := s.Next(id)
		if !utf8.ValidString(part) {
			t.Fatalf("id %d of %v gives %q, which is not UTF-8", id, ids, part)
		}
		text.WriteString(part)
	}
	return text.String() + s.Flush()
}

// Includes orders of ids that no text has.
func TestStreamOfAnyIDs(t *testing.T) {
	tok := open(t, "metaspace")
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.Int32Range(3, 258), rapid.Int32Range(-1, int32(tok.Vocab())))
		ids := rapid.SliceOfN(id, 0, 30).Draw(t, "ids")
		stream(t, tok.Stream(), ids)
	})
}

func TestStreamSteps(t *testing.T) {
	tok := open(t, "normalizer")
	id := func(token string) int32 {
		id, ok := tok.ids[token]
		if !ok {
			t.Fatalf("no token %q", token)
		}
		return id
	}
	for _, c := range []struct {
		name  string
		ids   []int32
		parts []string // the last is Flush's
	}{
		{"a character in bytes", []int32{id("<0xF0>"), id("<0x9F>"), id("<0x98>"), id("<0x80>")}, []string{"", "", "", "😀", ""}},
		{"two characters and half of one", []int32{id("<0xC3>"), id("<0x9F>"), id("<0x41>"), id("<0xC3>")},
			[]string{"", "ß", "A", "", "\uFFFD"}},
		{"cut off by a token", []int32{id("<0xE2>"), id("<0x82>"), id("a")}, []string{"", "", "\uFFFD\uFFFDa", ""}},
		{"cut off by a byte", []int32{id("<0xE2>"), id("<0x41>")}, []string{"", "\uFFFDA", ""}},
		{"no beginning", []int32{id("<0x82>")}, []string{"\uFFFD", ""}},
		{"special inside of a character", []int32{id("<0xC3>"), id("</s>"), id("<0x9F>")}, []string{"", "", "ß", ""}},
		{"blank in front", []int32{id("<s>"), id("▁"), id("▁the"), id("▁the")}, []string{"", "", " the", " the", ""}},
		{"blank of the first word", []int32{id("▁the"), id("▁the")}, []string{"the", " the", ""}},
		{"blank in bytes", []int32{id("<0x20>"), id("<0x20>")}, []string{"", " ", ""}},
	} {
		s := tok.Stream()
		for range 2 { // Flush starts a new text
			for i, id := range c.ids {
				if got := s.Next(id); got != c.parts[i] {
					t.Errorf("%s: part %d is %q, want %q", c.name, i, got, c.parts[i])
				}
			}
			if got := s.Flush(); got != c.parts[len(c.ids)] {
				t.Errorf("%s: the rest is %q, want %q", c.name, got, c.parts[len(c.ids)])
			}
		}
	}
}
