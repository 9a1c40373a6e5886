// Package tokenizer turns text into the token ids of the models in this project's reach,
// and ids into text, as the files beside a model's weights say. It reads
//
//   - tokenizer.json of Mistral v0.1 to v0.3 and Llama 2: byte-pair encoding over
//     characters. What the vocabulary lacks is spelt in tokens of one byte each, and the
//     blank is written "▁" inside of tokens, either by a normalizer or by a Metaspace
//     pre-tokenizer.
//   - tokenizer.json of Llama 3, Qwen 2, GPT-2 and their kind: byte-pair encoding over
//     bytes ("ByteLevel"), in words that regular expressions cut (Split, Digits), after
//     the normalizer NFC or none.
//   - tekken.json of Mistral Nemo, Small and their kind: byte-pair encoding over bytes by
//     the rank of what two tokens make together.
//
// Ids and texts are those of Hugging Face's tokenizers library and of mistral-common, to
// which the tests hold 10 000 strings for each kind. Neither is at hand in Go: with
// character tokens sugarme/tokenizer v0.3.0 lacks the byte fallback and was wrong on two
// thirds of the strings, gomlx/go-huggingface v0.3.1 and eliben/go-sentencepiece v0.6.0
// do not read tokenizer.json.
//
// Anything in a file that this package does not follow is an error of [Open], so that a
// tokenizer that opens is a tokenizer that is right. Two fields are read over on
// purpose: truncation and padding are how somebody once called the library, and
// transformers, too, drops them.
package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Tokenizer encodes and decodes text. It does not change after [Open] and may be used
// by several goroutines at once.
type Tokenizer struct {
	model bpe
	added added
	norm  normalizer
	space *metaspace // nil where the pre-tokenizer is none
	cuts  []cut      // the pre-tokenizer of byte-level BPE

	before, after []int32 // what the post-processor puts around a text
	ids           map[string]int32
	vocab         int // how many ids there are

	decoder decoder
}

// Encode returns the ids of text between the special tokens that the file's
// post-processor puts around it, which is <s> in front for most models.
// Special tokens that are spelt out in text are found and become their ids.
// Bytes of text that are not UTF-8 count as U+FFFD, one for each run of them.
func (t *Tokenizer) Encode(text string) []int32 {
	ids := t.encode(slices.Clone(t.before), text)
	return append(ids, t.after...)
}

// EncodeOrdinary is Encode without the post-processor's special tokens.
func (t *Tokenizer) EncodeOrdinary(text string) []int32 {
	return t.encode(nil, text)
}

// Vocab returns how many ids there are: each is at least 0 and below it.
func (t *Tokenizer) Vocab() int { return t.vocab }

// ID returns the id of a token as the vocabulary spells it, as in "▁the", "<0x0A>" or, in
// tokenizer.json with byte-level BPE, "Ġthe", and whether there is such a token. Those of
// tekken.json are spelt as they are, as in " the".
func (t *Tokenizer) ID(token string) (int32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// encode appends the ids of text to ids: added tokens are cut out of the text as it is,
// then out of what the normalizer makes of the rest; the model gets what remains.
func (t *Tokenizer) encode(ids []int32, text string) []int32 {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	ids = slices.Grow(ids, len(text)/3)
	word := t.model.word()
	t.added.raw.cut(text, func(id int32, start, stop int) {
		if id >= 0 {
			ids = append(ids, id)
			return
		}
		normal := t.norm.apply(text[start:stop])
		t.added.normalized.cut(normal, func(id int32, first, last int) {
			if id >= 0 {
				ids = append(ids, id)
				return
			}
			part := normal[first:last]
			if t.space == nil {
				each(t.cuts, part, func(part string) { ids = word.encode(ids, part) })
				return
			}
			t.space.each(part, start+first == 0, func(part string) {
				ids = word.encode(ids, part)
			})
		})
	})
	return ids
}

// A normalizer rewrites the text between added tokens, step by step.
type normalizer []rewrite

// A rewrite puts a prefix in front of a text, replaces all of old by new in it, or brings
// it into the composed normal form.
type rewrite struct {
	prefix   string
	old, new string // old is empty for a prefix
	compose  bool
}

// mostGrowth bounds how many times as long a normalizer can make a text. A space that becomes ▁ takes three times the bytes, and a composed
// character at most three times; forty steps that double a text would take all memory for one letter.
const mostGrowth = 16

// mostPrefix bounds the bytes of all prefixes together: they come before each part of a text, and models have one of three bytes.
const mostPrefix = 256

// bounded returns an error if the steps together can make a text more than mostGrowth times as long, or put more than
// mostPrefix bytes before it.
func (n normalizer) bounded() error {
	growth, prefix := 1.0, 0
	for i, r := range n {
		if prefix += len(r.prefix); prefix > mostPrefix {
			return fmt.Errorf("steps 1 to %d of %d put %d bytes before a text, expected at most %d", i+1, len(n), prefix, mostPrefix)
		}
		step := "NFC"
		switch {
		case r.compose:
			growth *= 3 // UTF-8's worst case: https://www.unicode.org/faq/normalization.html
		case r.old != "":
			step = fmt.Sprintf("the Replace of %s by %s", quote(r.old), quote(r.new))
			growth *= max(1, float64(len(r.new))/float64(len(r.old)))
		}
		if growth > mostGrowth {
			return fmt.Errorf("steps 1 to %d of %d, up to %s, can make a text %.3g times as long, expected at most %d times", i+1, len(n), step, growth, mostGrowth)
		}
	}
	return nil
}

// apply returns the normal form of text; that of an empty text is empty.
func (n normalizer) apply(text string) string {
	for _, r := range n {
		switch {
		case r.compose:
			text = composed(text)
		case r.old != "":
			text = strings.ReplaceAll(text, r.old, r.new)
		case text != "":
			text = r.prefix + text
		}
	}
	return text
}

// A metaspace is the pre-tokenizer that writes blanks as another character.
type metaspace struct {
	replacement string
	scheme      string // when the replacement goes in front of a part: always, first or never
	split       bool   // parts end before each replacement
}

// each calls yield with what is made of part, which stands between added tokens;
// first tells whether it begins the text.
func (m *metaspace) each(part string, first bool, yield func(string)) {
	part = strings.ReplaceAll(part, " ", m.replacement)
	if (m.scheme == "always" || m.scheme == "first" && first) && !strings.HasPrefix(part, m.replacement) {
		part = m.replacement + part
	}
	for m.split && part != "" {
		_, size := utf8.DecodeRuneInString(part)
		end := strings.Index(part[size:], m.replacement)
		if end < 0 {
			break
		}
		yield(part[:size+end])
		part = part[size+end:]
	}
	if part != "" {
		yield(part)
	}
}
