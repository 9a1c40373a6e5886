// Package tokenizer converts text to the token ids of the supported models and back, by the files that come
// with a model's weights. It reads
//
//   - tokenizer.json of Mistral v0.1 to v0.3 and Llama 2: byte-pair encoding over characters.
//     Characters outside the vocabulary are spelled in tokens of one byte each. A space is "▁"
//     inside tokens, by a normalizer or a Metaspace pre-tokenizer.
//   - tokenizer.json of Llama 3, Qwen 2, GPT-2 and similar models: byte-pair encoding over bytes
//     ("ByteLevel") in words split by regular expressions (Split, Digits), with the normalizer
//     NFC or none.
//   - tekken.json of Mistral Nemo, Small and similar models: byte-pair encoding over bytes,
//     ranked by the merged token.
//
// Ids and texts equal those of Hugging Face's tokenizers library and mistral-common, tested with 10 000
// strings per kind. No Go library does this: for character tokens sugarme/tokenizer v0.3.0 has no byte
// fallback and was wrong on two thirds of the strings; gomlx/go-huggingface v0.3.1 and
// eliben/go-sentencepiece v0.6.0 do not read tokenizer.json.
//
// [Open] rejects anything in a file that this package does not support, so an open tokenizer is correct. It
// ignores truncation and padding, which are settings of an earlier call; transformers ignores them too.
package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Tokenizer encodes and decodes text. It is immutable and safe for concurrent use.
type Tokenizer struct {
	model bpe
	added added
	norm  normalizer
	space *metaspace // nil without a Metaspace pre-tokenizer
	cuts  []cut      // the pre-tokenizer of byte-level BPE

	before, after []int32 // tokens that the post-processor adds around a text
	ids           map[string]int32
	vocab         int

	decoder decoder
}

// Encode returns the ids of text with the special tokens of the file's post-processor, for most models <s> in
// front. Special tokens in text become their ids. Each run of invalid UTF-8 counts as one U+FFFD.
func (t *Tokenizer) Encode(text string) []int32 {
	ids := t.encode(slices.Clone(t.before), text)
	return append(ids, t.after...)
}

// EncodeOrdinary is Encode without the post-processor's special tokens.
func (t *Tokenizer) EncodeOrdinary(text string) []int32 {
	return t.encode(nil, text)
}

// Vocab returns the number of ids, which are 0 to Vocab-1.
func (t *Tokenizer) Vocab() int { return t.vocab }

// encode appends the ids of text: it finds added tokens in the original text, then in the normalized rest;
// the model encodes the remainder.
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

// normalizer rewrites the text between added tokens in steps.
type normalizer []rewrite

// rewrite prepends a prefix, replaces old by new, or applies NFC.
type rewrite struct {
	prefix   string
	old, new string // old is empty for a prefix
	compose  bool
}

// mostGrowth limits how much longer a normalizer can make a text. A space as ▁ takes three times the bytes,
// and NFC at most three times. Without a limit, forty doubling steps would exhaust memory on one letter.
const mostGrowth = 16

// mostPrefix limits the total bytes of prefixes, which precede each part of a text; models have one of three
// bytes.
const mostPrefix = 256

// bounded returns an error if the steps together exceed mostGrowth or mostPrefix.
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
			return fmt.Errorf("steps 1 to %d of %d, up to %s, can make a text %.3g times as long, expected at most %d times", i+1, len(n),
				step, growth, mostGrowth)
		}
	}
	return nil
}

// apply returns the normal form of text; an empty text stays empty.
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

// metaspace is the pre-tokenizer that replaces spaces by another character.
type metaspace struct {
	replacement string
	scheme      string // when a part is prefixed: always, first or never
	split       bool   // parts end before each replacement
}

// each calls yield with the pieces of part, a text between added tokens; first means that it begins the text.
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
