package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels/mistral/tokenizer/regex"
)

// charOf are the characters that byte-level BPE tokens are written in, one per byte: printable Latin-1 as
// itself, the others from U+0100 on, so a space is Ġ. byteOf is the inverse.
var charOf, byteOf = func() (chars [256]rune, bytes map[rune]byte) {
	bytes = map[rune]byte{}
	next := rune(256)
	for b := range rune(256) {
		chars[b] = b
		if b < '!' || b > '~' && b < '¡' || b == '\u00AD' {
			chars[b] = next
			next++
		}
		bytes[chars[b]] = byte(b)
	}
	return chars, bytes
}()

// unwritten returns the bytes that a token's characters stand for; false if some character stands for none.
func unwritten(token string) (string, bool) {
	text := make([]byte, 0, len(token))
	for _, r := range token {
		b, ok := byteOf[r]
		if !ok {
			return "", false
		}
		text = append(text, b)
	}
	return string(text), true
}

// readBytes finds the tokens of single bytes and, for ignore_merges, of words.
func (b *bpe) readBytes(vocab vocabulary) {
	b.byteLevel, b.whole = true, true
	for i, char := range charOf {
		b.bytes[i] = -1
		if id, ok := vocab[string(char)]; ok {
			b.bytes[i] = int32(id)
		}
	}
	if !b.ignoreMerges {
		return
	}
	b.vocab = make(map[string]int32, len(vocab))
	for token, id := range vocab {
		if text, ok := unwritten(token); ok {
			b.vocab[text] = int32(id)
		}
	}
}

// cut is one step of splitting the text between added tokens into words.
type cut struct {
	prefix bool           // adds a space before a part that has none
	at     *regex.Pattern // matches become parts; nil cuts nothing
	// Whether matches, and the text between them, are dropped.
	dropMatches, dropRest bool
}

// each calls yield for the words that the cuts, applied in order, make of the non-empty text.
func each(cuts []cut, text string, yield func(string)) {
	if len(cuts) == 0 {
		yield(text)
		return
	}
	c := &cuts[0]
	if c.prefix && !strings.HasPrefix(text, " ") {
		text = " " + text
	}
	if c.at == nil {
		each(cuts[1:], text, yield)
		return
	}
	c.at.Each(text, func(start, stop int, match bool) {
		if match && c.dropMatches || !match && c.dropRest {
			return
		}
		each(cuts[1:], text[start:stop], yield)
	})
}

// Expressions built into the library: ByteLevel with use_regex, and Digits with the digits of Unicode 17.0.
const (
	ofByteLevel = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	ofDigits    = `[\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}]`
)

func preTokenizers(part json.RawMessage) ([]json.RawMessage, error) {
	return steps(part, "pretokenizers")
}

// steps returns the parts of a Sequence in its one field besides the type, or another part itself.
func steps(part json.RawMessage, field string) ([]json.RawMessage, error) {
	if absent(part) || typeOf(part) != "Sequence" {
		return []json.RawMessage{part}, nil
	}
	var s map[string]json.RawMessage
	if err := read(part, &s); err != nil {
		return nil, err
	}
	for name := range s {
		if name != "type" && name != field {
			return nil, fmt.Errorf("json: unknown field %q", name)
		}
	}
	if s[field] == nil {
		return nil, nil
	}
	var list []json.RawMessage
	err := read(s[field], &list)
	return list, err
}

// isByteLevel reports whether a pre-tokenizer passes bytes to the model.
func isByteLevel(part json.RawMessage) bool {
	if absent(part) {
		return false
	}
	parts, err := preTokenizers(part)
	return err == nil && slices.ContainsFunc(parts, func(p json.RawMessage) bool { return typeOf(p) == "ByteLevel" })
}

func (t *Tokenizer) readCuts(part json.RawMessage) error {
	parts, err := preTokenizers(part)
	if err != nil {
		return err
	}
	for i, one := range parts {
		switch last := i == len(parts)-1; {
		case typeOf(one) == "ByteLevel" && last:
			b, err := readByteLevel(one)
			if err != nil {
				return err
			}
			c := cut{prefix: *b.Prefix}
			if b.Regex == nil || *b.Regex {
				if c.at, err = compile(ofByteLevel); err != nil {
					return err
				}
			}
			t.cuts = append(t.cuts, c)
		case typeOf(one) == "Split" && !last:
			if err := t.readSplit(one); err != nil {
				return err
			}
		case typeOf(one) == "Digits" && !last:
			if err := t.readDigits(one); err != nil {
				return err
			}
		default:
			return fmt.Errorf("found %s, expected Split and Digits in front of one ByteLevel", kind(part))
		}
	}
	return nil
}

type byteLevel struct {
	Type   string `json:"type"`
	Prefix *bool  `json:"add_prefix_space"`
	Trim   bool   `json:"trim_offsets"`
	Regex  *bool  `json:"use_regex"`
}

func readByteLevel(part json.RawMessage) (byteLevel, error) {
	var b byteLevel
	if err := read(part, &b); err != nil {
		return b, err
	}
	if b.Prefix == nil {
		return b, errors.New("found no add_prefix_space in ByteLevel, expected true or false")
	}
	return b, nil
}

func (t *Tokenizer) readSplit(part json.RawMessage) error {
	var s struct {
		Type     string  `json:"type"`
		Pattern  pattern `json:"pattern"`
		Behavior string  `json:"behavior"`
		Invert   bool    `json:"invert"`
	}
	if err := read(part, &s); err != nil {
		return err
	}
	if s.Pattern.Regex == nil || s.Pattern.String != nil {
		return errors.New("found no regular expression in Split, expected a Regex")
	}
	at, err := compile(*s.Pattern.Regex)
	if err != nil {
		return err
	}
	c := cut{at: at}
	switch s.Behavior {
	case "Isolated":
	case "Removed":
		c.dropMatches, c.dropRest = !s.Invert, s.Invert
	default:
		return fmt.Errorf("found behavior %s in Split, expected Isolated or Removed", quote(s.Behavior))
	}
	t.cuts = append(t.cuts, c)
	return nil
}

func (t *Tokenizer) readDigits(part json.RawMessage) error {
	var d struct {
		Type       string `json:"type"`
		Individual bool   `json:"individual_digits"`
	}
	if err := read(part, &d); err != nil {
		return err
	}
	expression := ofDigits
	if !d.Individual {
		expression += "+"
	}
	at, err := compile(expression)
	t.cuts = append(t.cuts, cut{at: at})
	return err
}

func compile(expression string) (*regex.Pattern, error) {
	p, err := regex.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf("regular expression: %w", err)
	}
	return p, nil
}

// readByteDecoder reads the decoder of byte-level BPE and builds the table of pieces. Added tokens also stand
// for bytes if all of their characters do, as in the library.
func (t *Tokenizer) readByteDecoder(part json.RawMessage, added []addedToken) error {
	if absent(part) || typeOf(part) != "ByteLevel" {
		return fmt.Errorf("found %s, expected ByteLevel as in pre_tokenizer", kind(part))
	}
	if _, err := readByteLevel(part); err != nil {
		return err
	}
	t.decoder.bytes = true
	t.decoder.tokens = make([]piece, t.vocab)
	for id, form := range t.forms(added) {
		text, ok := unwritten(form)
		if !ok {
			text = form
		}
		t.decoder.tokens[id] = piece{text: text}
	}
	t.decoder.skip(added)
	return nil
}
