package tokenizer

import (
	"slices"
	"strings"
	"testing"
)

func megabyte(text string) string {
	return strings.Repeat(text, (1<<20)/len(text)+1)[:1<<20]
}

// One MB of each kind: the test's strings; prose; one long word, in which all merges compete; added tokens
// and their prefixes.
func BenchmarkEncode(b *testing.B) {
	for _, style := range append([]string{"normalizer", "metaspace"}, byteLevelKinds...) {
		var tok *Tokenizer
		if slices.Contains(byteLevelKinds, style) {
			tok = openByteLevel(b, style)
		} else {
			tok = open(b, style)
		}
		for _, c := range []struct{ name, text string }{
			{"mixture", strings.Join(texts(b, 10_000), "")},
			{"prose", " the quick brown fox jumps over the lazy dog, which is under no condition limited"},
			{"blanks", " "},
			{"word", "contributionslicenseincluding"},
			{"capitals", "CONTRIBUTIONS"},
			{"lines", "\n   "},
			{"digits", "1234567890"},
			{"characters", "你好世界"},
			{"marks", "e\u0301\u0323"},
			{"added", "<|im_end|><|eot_id|>[INST] <|im <tag> [INST"},
		} {
			text := megabyte(c.text)
			b.Run(style+"/"+c.name, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					tok.Encode(text)
				}
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	tok := open(b, "normalizer")
	text := megabyte(strings.Join(texts(b, 10_000), ""))
	ids := tok.Encode(text)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s := tok.Stream()
		for _, id := range ids {
			s.Next(id)
		}
		s.Flush()
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		open(b, "normalizer")
	}
}
