package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// decoder is what turns ids into text.
type decoder struct {
	tokens []piece
	bytes  bool   // tokens are bytes, of which only all together are a text
	apart  bool   // a special token ends a character in bytes
	strip  string // what is taken off the front of a text
	most   int    // how often
}

// A piece is what a token gives to a text.
type piece struct {
	text   string // bytes, where the decoder says so
	isByte bool   // the token spells a byte
	byte   byte
	skip   bool // special tokens give nothing
}

// A leading is what of the front of a text is still to be taken off.
type leading struct {
	strip string
	most  int
}

func (d *decoder) leading() leading { return leading{d.strip, d.most} }

// cut returns text without what is to be taken off.
func (l *leading) cut(text string) string {
	for l.most > 0 && text != "" {
		rest, ok := strings.CutPrefix(text, l.strip)
		if !ok {
			l.most = 0
			break
		}
		text = rest
		l.most--
	}
	return text
}

// piece returns what id gives; ids that do not exist give nothing, like special ones.
func (d *decoder) piece(id int32) piece {
	if id < 0 || int(id) >= len(d.tokens) {
		return piece{skip: true}
	}
	return d.tokens[id]
}

// replacements returns U+FFFD for each of n bytes.
func replacements(n int) string { return strings.Repeat(string(utf8.RuneError), n) }

// characters writes the characters that text begins with and returns the beginning of
// another at its end, up to 3 bytes; with end set, that is none. Bytes that are no part of
// a character become U+FFFD, and so does the beginning of one that does not go on.
func characters(to *strings.Builder, text string, end bool) (rest string) {
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && size == 1 {
			size = 0
			for size < len(text) && size < utf8.UTFMax-1 && !utf8.FullRuneInString(text[:size+1]) {
				size++
			}
			if size == len(text) && !end {
				return text
			}
			size = max(size, 1)
		}
		to.WriteRune(r)
		text = text[size:]
	}
	return ""
}

// decodeBytes is Decode where tokens are bytes.
func (t *Tokenizer) decodeBytes(ids []int32) string {
	var text strings.Builder
	var run []byte
	for _, id := range ids {
		p := t.decoder.piece(id)
		if p.skip && t.decoder.apart {
			characters(&text, string(run), true)
			run = run[:0]
		}
		if !p.skip {
			run = append(run, p.text...)
		}
	}
	characters(&text, string(run), true)
	return text.String()
}

// Decode returns the text of ids without special tokens; ids that do not exist are left
// out, too. Where tokens of single bytes in a row are not UTF-8 as a whole, each of
// them becomes U+FFFD. With byte-level BPE it is one U+FFFD for each byte that belongs to
// no character and for each beginning of a character that does not go on.
func (t *Tokenizer) Decode(ids []int32) string {
	if t.decoder.bytes {
		return t.decodeBytes(ids)
	}
	var text strings.Builder
	var run []byte
	flush := func() {
		if utf8.Valid(run) {
			text.Write(run)
		} else {
			text.WriteString(replacements(len(run)))
		}
		run = run[:0]
	}
	for _, id := range ids {
		switch p := t.decoder.piece(id); {
		case p.skip:
		case p.isByte:
			run = append(run, p.byte)
		default:
			flush()
			text.WriteString(p.text)
		}
	}
	flush()
	lead := t.decoder.leading()
	return lead.cut(text.String())
}

// A Stream decodes ids one by one. Its parts together are what [Tokenizer.Decode] makes
// of all ids, with one difference where bytes are a fallback: a character that is spelt in bytes comes as soon as
// it is whole, and stays even if bytes behind it turn out not to be UTF-8. Only those
// then become U+FFFD, one for each byte.
type Stream struct {
	decoder *decoder
	lead    leading
	bytes   []byte // the beginning of a character, up to 3 bytes
}

// Stream returns a stream at the beginning of a text.
func (t *Tokenizer) Stream() *Stream {
	return &Stream{decoder: &t.decoder, lead: t.decoder.leading()}
}

// Next returns the text that id completes: whole characters only, and none where id is
// special, unknown, or a byte inside of a character.
func (s *Stream) Next(id int32) string {
	p := s.decoder.piece(id)
	var text strings.Builder
	if s.decoder.bytes {
		s.bytes = append(s.bytes, p.text...)
		rest := characters(&text, string(s.bytes), p.skip && s.decoder.apart)
		s.bytes = append(s.bytes[:0], rest...)
		return text.String()
	}
	if p.skip {
		return ""
	}
	if p.isByte {
		s.bytes = append(s.bytes, p.byte)
		for len(s.bytes) > 0 && utf8.FullRune(s.bytes) {
			r, size := utf8.DecodeRune(s.bytes)
			text.WriteRune(r)
			s.bytes = s.bytes[size:]
		}
	} else {
		text.WriteString(replacements(len(s.bytes)))
		text.WriteString(p.text)
		s.bytes = s.bytes[:0]
	}
	return s.lead.cut(text.String())
}

// Flush ends the text: it returns U+FFFD for each byte of a character that was left
// incomplete, one for all of them with byte-level BPE, and the next id begins a new text.
func (s *Stream) Flush() string {
	if s.decoder.bytes {
		var text strings.Builder
		characters(&text, string(s.bytes), true)
		s.bytes = s.bytes[:0]
		return text.String()
	}
	text := s.lead.cut(replacements(len(s.bytes)))
	s.bytes, s.lead = s.bytes[:0], s.decoder.leading()
	return text
}
