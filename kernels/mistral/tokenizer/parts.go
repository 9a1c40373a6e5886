package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pattern is the pattern of a Replace; the library also allows regular expressions.
type pattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// text returns the pattern, which must be a string.
func (p pattern) text() (string, error) {
	switch {
	case p.Regex != nil:
		return "", fmt.Errorf("found the regular expression %s in Replace, expected a String", quote(*p.Regex))
	case p.String == nil || *p.String == "":
		return "", errors.New("found an empty pattern in Replace, expected a String")
	}
	return *p.String, nil
}

type replace struct {
	Type    string  `json:"type"`
	Pattern pattern `json:"pattern"`
	Content string  `json:"content"`
}

func (t *Tokenizer) readNormalizer(part json.RawMessage) error {
	if absent(part) {
		return nil
	}
	switch typeOf(part) {
	case "Sequence":
		list, err := steps(part, "normalizers")
		if err != nil {
			return err
		}
		for _, one := range list {
			if typeOf(one) == "Sequence" {
				return fmt.Errorf("found %s in a Sequence, expected Prepend, Replace and NFC", kind(one))
			}
			if err := t.readNormalizer(one); err != nil {
				return err
			}
		}
	case "Prepend":
		var p struct {
			Type    string `json:"type"`
			Prepend string `json:"prepend"`
		}
		if err := read(part, &p); err != nil {
			return err
		}
		t.norm = append(t.norm, rewrite{prefix: p.Prepend})
	case "Replace":
		var r replace
		if err := read(part, &r); err != nil {
			return err
		}
		old, err := r.Pattern.text()
		if err != nil {
			return err
		}
		t.norm = append(t.norm, rewrite{old: old, new: r.Content})
	case "NFC":
		t.norm = append(t.norm, rewrite{compose: true})
	default:
		return fmt.Errorf("found %s, expected null, NFC or a Sequence of Prepend, Replace and NFC", kind(part))
	}
	return nil
}

func (t *Tokenizer) readPreTokenizer(part json.RawMessage) error {
	if absent(part) {
		return nil
	}
	if isByteLevel(part) {
		return t.readCuts(part)
	}
	if typeOf(part) != "Metaspace" {
		return fmt.Errorf("found %s, expected null, Metaspace, ByteLevel or a Sequence of Split, Digits and ByteLevel", kind(part))
	}
	m := struct {
		Type        string  `json:"type"`
		Replacement string  `json:"replacement"`
		Old         *bool   `json:"add_prefix_space"`
		Scheme      *string `json:"prepend_scheme"`
		Split       *bool   `json:"split"`
	}{}
	if err := read(part, &m); err != nil {
		return err
	}
	if utf8.RuneCountInString(m.Replacement) != 1 {
		return fmt.Errorf("found replacement %s in Metaspace, expected one character", quote(m.Replacement))
	}
	scheme := "always"
	if m.Scheme != nil {
		scheme = *m.Scheme
	}
	if scheme != "always" && scheme != "first" && scheme != "never" {
		return fmt.Errorf("found prepend_scheme %s in Metaspace, expected always, first or never", quote(scheme))
	}
	// Files older than prepend_scheme have add_prefix_space, some have both.
	if m.Old != nil && !*m.Old {
		if m.Scheme != nil && scheme != "never" {
			return fmt.Errorf("found add_prefix_space false and prepend_scheme %s in Metaspace, expected never", quote(scheme))
		}
		scheme = "never"
	}
	t.space = &metaspace{m.Replacement, scheme, m.Split == nil || *m.Split}
	return nil
}

// mostAround limits the special tokens around a text; models have one or two. A template may repeat each list
// of ids, so their number can grow with the square of the file size.
const mostAround = 1 << 10

func (t *Tokenizer) readPostProcessor(part json.RawMessage) error {
	if absent(part) {
		return nil
	}
	if typeOf(part) == "Sequence" {
		list, err := steps(part, "processors")
		if err != nil {
			return err
		}
		templates := 0
		for _, one := range list {
			if typeOf(one) == "TemplateProcessing" {
				templates++
			}
			if templates > 1 || typeOf(one) == "Sequence" {
				return fmt.Errorf("found %s, expected a Sequence of ByteLevel and one TemplateProcessing", kind(part))
			}
			if err := t.readPostProcessor(one); err != nil {
				return err
			}
		}
		return nil
	}
	if typeOf(part) == "ByteLevel" { // it changes offsets, not ids
		_, err := readByteLevel(part)
		return err
	}
	if typeOf(part) != "TemplateProcessing" {
		return fmt.Errorf("found %s, expected null, ByteLevel, TemplateProcessing or a Sequence of both", kind(part))
	}
	type place struct {
		ID     string `json:"id"`
		TypeID int    `json:"type_id"`
	}
	var p struct {
		Type   string `json:"type"`
		Single []struct {
			Special  *place `json:"SpecialToken"`
			Sequence *place `json:"Sequence"`
		} `json:"single"`
		Pair    json.RawMessage `json:"pair"` // for pairs of texts
		Special map[string]struct {
			ID     string   `json:"id"`
			IDs    []int64  `json:"ids"`
			Tokens []string `json:"tokens"`
		} `json:"special_tokens"`
	}
	if err := read(part, &p); err != nil {
		return err
	}
	texts := 0
	for _, s := range p.Single {
		switch {
		case s.Sequence != nil && s.Special == nil && s.Sequence.ID == "A":
			texts++
		case s.Special != nil && s.Sequence == nil:
			special, ok := p.Special[s.Special.ID]
			if !ok {
				return fmt.Errorf("single: found token %s, expected one of special_tokens", quote(s.Special.ID))
			}
			if n := len(t.before) + len(t.after) + len(special.IDs); n > mostAround {
				return fmt.Errorf("single: found %d special tokens around a text, expected at most %d", n, mostAround)
			}
			for _, id := range special.IDs {
				if id < 0 || id >= int64(t.vocab) {
					return fmt.Errorf("id %d of token %s: expected 0 to %d", id, quote(s.Special.ID), t.vocab-1)
				}
				if texts == 0 {
					t.before = append(t.before, int32(id))
				} else {
					t.after = append(t.after, int32(id))
				}
			}
		default:
			return errors.New("single: found a part that is neither the text A nor a special token")
		}
	}
	if texts != 1 {
		return fmt.Errorf("single: found the text %d times, expected once", texts)
	}
	return nil
}

// decoderSteps are the supported steps of a decoder in their required order.
var decoderSteps = []string{"Replace", "ByteFallback", "Fuse", "Strip"}

func (t *Tokenizer) readDecoder(part json.RawMessage, added []addedToken) error {
	const expected = "a Sequence of Replace, ByteFallback, Fuse and Strip in this order"
	if t.model.byteLevel {
		return t.readByteDecoder(part, added)
	}
	parts, err := steps(part, "decoders")
	if err != nil {
		return err
	}
	var replaces normalizer
	asBytes, fused, last := false, false, 0
	for _, one := range parts {
		step := slices.Index(decoderSteps, typeOf(one))
		// Only Replace may repeat.
		if step < 0 || step < last || step == last && step > 0 {
			return fmt.Errorf("found %s, expected %s", kind(part), expected)
		}
		last = step
		switch decoderSteps[step] {
		case "Replace":
			var r replace
			if err := read(one, &r); err != nil {
				return err
			}
			old, err := r.Pattern.text()
			if err != nil {
				return err
			}
			replaces = append(replaces, rewrite{old: old, new: r.Content})
		case "ByteFallback":
			asBytes = true
		case "Fuse":
			fused = true
		case "Strip":
			if !fused {
				return fmt.Errorf("found %s, which strips each token on its own, expected %s", kind(part), expected)
			}
			if err := t.decoder.readStrip(one); err != nil {
				return err
			}
		}
	}
	if err := replaces.bounded(); err != nil {
		return err
	}
	forms := t.forms(added)
	t.decoder.tokens = make([]piece, len(forms))
	for id, form := range forms {
		p := piece{text: replaces.apply(form)}
		if asBytes {
			p.byte, p.isByte = spelt(p.text)
		}
		t.decoder.tokens[id] = p
	}
	t.decoder.skip(added)
	return nil
}

func (t *Tokenizer) forms(added []addedToken) []string {
	forms := make([]string, t.vocab)
	for token, id := range t.ids {
		forms[id] = token
	}
	for _, a := range added {
		if a.Normalized {
			forms[a.ID] = t.norm.apply(a.Content)
		}
	}
	return forms
}

// skip removes the text of special tokens, including normalized ones, which the library (0.23) fails to skip
// because it decodes their normal form.
func (d *decoder) skip(added []addedToken) {
	for _, a := range added {
		if a.Special {
			d.tokens[a.ID] = piece{skip: true}
		}
	}
}

func (d *decoder) readStrip(part json.RawMessage) error {
	var s struct {
		Type    string `json:"type"`
		Content string `json:"content"`
		Start   int    `json:"start"`
		Stop    int    `json:"stop"`
	}
	if err := read(part, &s); err != nil {
		return err
	}
	if utf8.RuneCountInString(s.Content) != 1 || s.Start < 0 || s.Stop != 0 {
		return fmt.Errorf("found content %s, start %d, stop %d in Strip, expected one character, 0 or more, 0", quote(s.Content), s.Start,
			s.Stop)
	}
	d.strip, d.most = s.Content, s.Start
	return nil
}

// spelt returns the byte of a token like <0x0A>.
func spelt(token string) (byte, bool) {
	if len(token) != len("<0x0A>") || !strings.HasPrefix(token, "<0x") || token[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(b), err == nil
}
