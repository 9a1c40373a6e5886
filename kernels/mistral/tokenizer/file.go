package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// largest is the maximum file size in bytes. Supported models have 2 to 4 MB, the largest known vocabularies
// 30 MB.
const largest = 256 << 20

// Open reads the tokenizer.json at path, or tekken.json if the name contains "tekken", as in mistral-common.
// For a damaged or unsupported file the error names the place, what was found and what was expected, in one
// line.
func Open(path string) (*Tokenizer, error) {
	data, err := regular.Read(path, largest)
	if err != nil {
		return nil, fmt.Errorf("read tokenizer %w", err)
	}
	reader := parse
	if strings.Contains(filepath.Base(path), "tekken") {
		reader = parseTekken
	}
	t, err := reader(data)
	if err != nil {
		return nil, fmt.Errorf("read tokenizer %s: %w", path, err)
	}
	return t, nil
}

// document is a tokenizer.json. Parts with a type are read once the type is known.
type document struct {
	Version       string          `json:"version"`
	Truncation    json.RawMessage `json:"truncation"`
	Padding       json.RawMessage `json:"padding"`
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         json.RawMessage `json:"model"`
}

type addedToken struct {
	ID         int64  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	Lstrip     bool   `json:"lstrip"`
	Rstrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

func parse(data []byte) (*Tokenizer, error) {
	var d document
	if err := read(data, &d); err != nil {
		return nil, err
	}
	if d.Version != "" && d.Version != "1.0" {
		return nil, fmt.Errorf("found version %s, expected \"1.0\"", quote(d.Version))
	}
	// Kinds of tokenizers differ in several parts. The model and the part before it identify the kind best.
	t := &Tokenizer{}
	vocab, err := t.readModel(d.Model, isByteLevel(d.PreTokenizer))
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := t.readNormalizer(d.Normalizer); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if err := t.norm.bounded(); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if err := t.readPreTokenizer(d.PreTokenizer); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if t.space != nil && len(t.norm) > 0 {
		return nil, fmt.Errorf("normalizer %s and pre_tokenizer Metaspace: expected one of the two", kind(d.Normalizer))
	}
	if err := t.number(vocab, d.AddedTokens); err != nil {
		return nil, err
	}
	if err := t.readAdded(d.AddedTokens); err != nil {
		return nil, err
	}
	if err := t.readPostProcessor(d.PostProcessor); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if err := t.readDecoder(d.Decoder, d.AddedTokens); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	return t, nil
}

// number assigns the ids, which must be 0, 1, 2 and so on without gaps or duplicates. Tables are therefore no
// larger than the file.
func (t *Tokenizer) number(vocab vocabulary, added []addedToken) error {
	t.ids = make(map[string]int32, len(vocab)+len(added))
	total := int64(len(vocab))
	seen := make(map[string]bool, len(added))
	for _, a := range added {
		if seen[a.Content] {
			return fmt.Errorf("added token %s: listed twice", quote(a.Content))
		}
		seen[a.Content] = true
		if _, ok := vocab[a.Content]; !ok {
			total++
		}
	}
	t.vocab = int(total)
	owners := make([]string, total)
	owned := make([]bool, total)
	own := func(token string, id int64) error {
		switch {
		case id < 0 || id >= total:
			return fmt.Errorf("id %d of token %s: expected 0 to %d, as there are %d tokens", id, quote(token), total-1, total)
		case owned[id]:
			return fmt.Errorf("id %d: belongs to the tokens %s and %s", id, quote(owners[id]), quote(token))
		}
		owners[id], owned[id] = token, true
		t.ids[token] = int32(id)
		return nil
	}
	for token, id := range vocab {
		if err := own(token, id); err != nil {
			return err
		}
	}
	for _, a := range added {
		id, ok := vocab[a.Content]
		if ok && id != a.ID {
			return fmt.Errorf("added token %s: id %d, expected %d as in the vocabulary", quote(a.Content), a.ID, id)
		}
		if ok {
			continue
		}
		if err := own(a.Content, a.ID); err != nil {
			return err
		}
	}
	return nil
}

// readAdded builds the matchers of the added tokens. Two tokens with one normal form are an error: the
// library (0.23) picks either at random.
func (t *Tokenizer) readAdded(tokens []addedToken) error {
	for _, a := range tokens {
		m, pattern := &t.added.raw, a.Content
		if a.Normalized {
			m, pattern = &t.added.normalized, t.norm.apply(a.Content)
		}
		if pattern == "" {
			return fmt.Errorf("added token %s of id %d: matches nothing", quote(a.Content), a.ID)
		}
		if other := m.add(pattern, int32(a.ID), flags{a.SingleWord, a.Lstrip, a.Rstrip}); other >= 0 {
			return fmt.Errorf("added tokens of ids %d and %d: both match %s", other, a.ID, quote(pattern))
		}
	}
	return nil
}

// read decodes the single JSON value in data; unknown fields are errors.
func read(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("JSON ends after %d bytes in the middle of a value", len(data))
		}
		return err
	}
	end := d.InputOffset()
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("more than one JSON value: the first ends at byte %d of %d", end, len(data))
	}
	return nil
}

// absent reports whether a part is missing or null.
func absent(part json.RawMessage) bool { return len(part) == 0 || string(part) == "null" }

// kind returns a part's type for a message, with the parts of a sequence.
func kind(part json.RawMessage) string {
	if absent(part) {
		return "null"
	}
	name := typeOf(part)
	if name != "Sequence" {
		return quote(name)
	}
	var s struct{ Normalizers, Pretokenizers, Processors, Decoders []json.RawMessage }
	if json.Unmarshal(part, &s) != nil {
		return quote(name)
	}
	var kinds []string
	for _, one := range slices.Concat(s.Normalizers, s.Pretokenizers, s.Processors, s.Decoders) {
		kinds = append(kinds, quote(typeOf(one)))
		if len(kinds) == 8 {
			kinds = append(kinds, "…")
			break
		}
	}
	return fmt.Sprintf("%q of [%s]", name, strings.Join(kinds, ", "))
}

func typeOf(part json.RawMessage) string {
	var t struct{ Type string }
	if json.Unmarshal(part, &t) != nil {
		return ""
	}
	return t.Type
}

func quote(text string) string {
	const most = 40
	if len(text) <= most {
		return fmt.Sprintf("%q", text)
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%q…", text[:cut])
}
