package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// model is the "model" part of a tokenizer.json.
type model struct {
	Type     *string    `json:"type"`
	Dropout  *float64   `json:"dropout"`
	Unknown  *string    `json:"unk_token"`
	Prefix   *string    `json:"continuing_subword_prefix"`
	Suffix   *string    `json:"end_of_word_suffix"`
	Fuse     bool       `json:"fuse_unk"`
	Fallback bool       `json:"byte_fallback"`
	Ignore   bool       `json:"ignore_merges"`
	Vocab    vocabulary `json:"vocab"`
	Merges   []mergeOf  `json:"merges"`
}

// readModel reads the model, in bytes instead of characters if byteLevel is set, and returns its vocabulary
// with unchecked ids.
func (t *Tokenizer) readModel(part json.RawMessage, byteLevel bool) (vocabulary, error) {
	if absent(part) {
		return nil, errors.New("found null, expected BPE")
	}
	// Files of the library's first versions have no type.
	if name := typeOf(part); name != "BPE" && name != "" {
		return nil, fmt.Errorf("found %s, expected BPE", quote(name))
	}
	var m model
	if err := read(part, &m); err != nil {
		return nil, err
	}
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return nil, fmt.Errorf("found dropout %g, expected null or 0: ids would be random", *m.Dropout)
	case m.Prefix != nil && *m.Prefix != "":
		return nil, fmt.Errorf("found continuing_subword_prefix %s, expected null", quote(*m.Prefix))
	case m.Suffix != nil && *m.Suffix != "":
		return nil, fmt.Errorf("found end_of_word_suffix %s, expected null", quote(*m.Suffix))
	case len(m.Vocab) == 0:
		return nil, errors.New("vocab: found no tokens")
	}
	ids := make(map[int64]string, len(m.Vocab))
	for token, id := range m.Vocab {
		// The id limit is the number of tokens including added ones, which is checked later. Here ids only
		// have to fit.
		if id < 0 || id > largest {
			return nil, fmt.Errorf("vocab: id %d of token %s: expected 0 to at most the number of tokens", id, quote(token))
		}
		if other, ok := ids[id]; ok {
			return nil, fmt.Errorf("vocab: id %d belongs to the tokens %s and %s", id, quote(min(token, other)), quote(max(token, other)))
		}
		ids[id] = token
	}
	b := &t.model
	b.fallback, b.fuse, b.ignoreMerges, b.unknown = m.Fallback, m.Fuse, m.Ignore, -1
	if m.Unknown != nil {
		id, ok := m.Vocab[*m.Unknown]
		if !ok {
			return nil, fmt.Errorf("found unk_token %s, expected one of the vocabulary", quote(*m.Unknown))
		}
		b.unknown = int32(id)
	}
	if !byteLevel {
		b.readVocab(m.Vocab)
		return m.Vocab, b.readMerges(m.Merges, m.Vocab)
	}
	b.readBytes(m.Vocab)
	if m.Fallback && slices.Contains(b.bytes[:], -1) {
		return nil, errors.New("found byte_fallback true in byte-level BPE whose vocabulary lacks bytes, expected false")
	}
	return m.Vocab, b.readMerges(m.Merges, m.Vocab)
}

func (b *bpe) readVocab(vocab vocabulary) {
	b.chars = map[rune]int32{}
	if b.ignoreMerges {
		b.vocab = make(map[string]int32, len(vocab))
	}
	for token, id := range vocab {
		if r, size := utf8.DecodeRuneInString(token); size > 0 && size == len(token) {
			b.chars[r] = int32(id)
		}
		if b.ignoreMerges {
			b.vocab[token] = int32(id)
		}
	}
	for i := range b.bytes {
		b.bytes[i] = -1
		if id, ok := vocab[fmt.Sprintf("<0x%02X>", i)]; ok {
			b.bytes[i] = int32(id)
		}
	}
}

// readMerges builds the table of merges. The last merge of a pair counts.
func (b *bpe) readMerges(merges []mergeOf, vocab vocabulary) error {
	literal := map[int64]bool{int64(b.unknown): true} // ids that may not stand for their characters
	for _, id := range b.bytes {
		literal[int64(id)] = true
	}
	b.merges = make(map[uint64]merge, len(merges))
	b.joins = map[uint64]struct{}{}
	for rank, of := range merges {
		left, right := of[0], of[1]
		var ids [3]int64
		for i, token := range []string{left, right, left + right} {
			id, ok := vocab[token]
			if !ok || token == "" {
				return fmt.Errorf("merge %d of %s and %s: %s is not in the vocabulary", rank, quote(left), quote(right), quote(token))
			}
			ids[i] = id
		}
		b.merges[pair(int32(ids[0]), int32(ids[1]))] = merge{int32(rank), int32(ids[2])}
		b.whole = b.whole || literal[ids[0]] || literal[ids[1]]
		last, _ := utf8.DecodeLastRuneInString(left)
		first, _ := utf8.DecodeRuneInString(right)
		b.joins[pair(last, first)] = struct{}{}
	}
	return nil
}

// vocabulary maps tokens to ids. Duplicate tokens are errors.
type vocabulary map[string]int64

func (v *vocabulary) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("vocab: expected an object of tokens and their ids")
	}
	*v = vocabulary{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return fmt.Errorf("vocab: %w", err)
		}
		token, _ := key.(string)
		value, err := d.Token()
		if err != nil {
			return fmt.Errorf("vocab: token %s: %w", quote(token), err)
		}
		number, ok := value.(json.Number)
		if !ok {
			return fmt.Errorf("vocab: id of token %s: expected a number", quote(token))
		}
		id, err := number.Int64()
		if err != nil {
			return fmt.Errorf("vocab: id %s of token %s: expected a whole number", quote(number.String()), quote(token))
		}
		if _, ok := (*v)[token]; ok {
			return fmt.Errorf("vocab: token %s listed twice", quote(token))
		}
		(*v)[token] = id
	}
	return nil
}

type mergeOf [2]string

// UnmarshalJSON reads a merge as "a b" or ["a", "b"], which tokens with spaces need.
func (m *mergeOf) UnmarshalJSON(data []byte) error {
	var parts []string
	if len(data) > 0 && data[0] == '"' {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		parts = strings.Split(text, " ")
	} else if err := json.Unmarshal(data, &parts); err != nil {
		return fmt.Errorf("merge %s: expected two tokens", quote(string(data)))
	}
	if len(parts) != 2 {
		return fmt.Errorf("merge %s: found %d tokens, expected two", quote(string(data)), len(parts))
	}
	*m = mergeOf(parts)
	return nil
}
