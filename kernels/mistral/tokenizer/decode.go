package tokenizer

import (
	"strings"
	"unicode/utf8"
)

type decoder struct {
	tokens []piece
	bytes  bool   // tokens are bytes of a common text
	apart  bool   // a special token ends a character in bytes
	strip  string // removed from the start of a text
	most   int    // how often
}

type piece struct {
	text   string // bytes if decoder.bytes is set
	isByte bool   // the token spells a byte
	byte   byte
	skip   bool // special tokens have no text
}

// leading is what remains to be removed from the start of a text.
type leading struct {
	strip string
	most  int
}

func (d *decoder) leading() leading { return leading{d.strip, d.most} }

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

func (d *decoder) piece(id int32) piece {
	if id < 0 || int(id) >= len(d.tokens) {
		return piece{skip: true}
	}
	return d.tokens[id]
}

func replacements(n int) string { return strings.Repeat(string(utf8.RuneError), n) }

// characters writes the leading whole characters of text and returns an incomplete one at its end, up to 3
// bytes; with end set, none. Invalid bytes become one U+FFFD each, and so does each incomplete character.
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

// Stream decodes ids one by one, without special and unknown tokens. With byte fallback, a character spelled in
// bytes is returned as soon as it is complete; bytes that are not UTF-8 become U+FFFD, one each. With byte-level
// BPE, each invalid byte and each incomplete character becomes one U+FFFD.
type Stream struct {
	decoder *decoder
	lead    leading
	bytes   []byte // an incomplete character, up to 3 bytes
}

// Stream returns a stream at the start of a text.
func (t *Tokenizer) Stream() *Stream {
	return &Stream{decoder: &t.decoder, lead: t.decoder.leading()}
}

// Next returns the text that id completes: only whole characters, and none if id is special, unknown, or
// inside a character.
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

// Flush ends the text. It returns U+FFFD for each byte of an incomplete character, or one for all with
// byte-level BPE. The next id begins a new text.
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
