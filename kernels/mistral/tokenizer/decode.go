package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// decoder is what turns ids into text.
type decoder struct {
	tokens []piece
	strip  string // what is taken off the front of a text
	most   int    // how often
}

// A piece is what a token gives to a text.
type piece struct {
	text   string
	isByte bool // the token spells a byte
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

// Decode returns the text of ids without special tokens; ids that do not exist are left
// out, too. Where tokens of single bytes in a row are not UTF-8 as a whole, each of
// them becomes U+FFFD.
func (t *Tokenizer) Decode(ids []int32) string {
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
// of all ids, with one difference: a character that is spelt in bytes comes as soon as
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
	if p.skip {
		return ""
	}
	var text strings.Builder
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
// incomplete, and the next id begins a new text.
func (s *Stream) Flush() string {
	text := s.lead.cut(replacements(len(s.bytes)))
	s.bytes, s.lead = s.bytes[:0], s.decoder.leading()
	return text
}
