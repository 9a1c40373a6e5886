package tokenizer

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// tekken is a tekken.json. The omitted parts are for images, audio and chats.
type tekken struct {
	Config struct {
		Pattern string          `json:"pattern"`
		Total   json.RawMessage `json:"num_vocab_tokens"` // the library ignores it
		Size    int64           `json:"default_vocab_size"`
		Special int64           `json:"default_num_special_tokens"`
		Version string          `json:"version"`
	} `json:"config"`
	Vocab    []tekkenToken   `json:"vocab"`
	Special  []tekkenSpecial `json:"special_tokens"`
	Type     json.RawMessage `json:"type"`
	Version  json.RawMessage `json:"version"`
	Image    json.RawMessage `json:"image"`
	Images   json.RawMessage `json:"multimodal"`
	Audio    json.RawMessage `json:"audio"`
	Settings json.RawMessage `json:"model_settings_builder"`
}

type tekkenToken struct {
	Rank  int64           `json:"rank"`
	Bytes *string         `json:"token_bytes"` // in base64
	Text  json.RawMessage `json:"token_str"`   // null if the bytes are not UTF-8
}

type tekkenSpecial struct {
	Rank    int64  `json:"rank"`
	Text    string `json:"token_str"`
	Control bool   `json:"is_control"`
}

// tekkenVersions are the versions that mistral-common 1.13 supports.
var tekkenVersions = []string{"v1", "v2", "v3", "v7", "v11", "v13", "v15"}

var firstSpecial = strings.Fields("<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] " +
	"[TOOL_CALLS] " +
	"[IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]")

// mostSpecial limits the number of special tokens, which a file need not list; known files have 1000.
const mostSpecial = 1 << 16

// parseTekken reads a tekken.json: special tokens have the first ids, the vocabulary follows by rank. Special
// tokens in a text stay text, as in mistral-common.
func parseTekken(data []byte) (*Tokenizer, error) {
	var d tekken
	if err := read(data, &d); err != nil {
		return nil, err
	}
	special, err := d.special()
	if err != nil {
		return nil, err
	}
	size := d.Config.Size - int64(len(special)) // used size of the vocabulary
	if size < 256 || size > int64(len(d.Vocab)) {
		return nil,
			fmt.Errorf("config: found default_vocab_size %d, expected %d to %d: %d special tokens, at least the 256 bytes, at most the "+
				"%d tokens of vocab",
				d.Config.Size, len(special)+256, len(special)+len(d.Vocab), len(special), len(d.Vocab))
	}
	at, err := compile(d.Config.Pattern)
	if err != nil {
		return nil, fmt.Errorf("config: pattern: %w", err)
	}
	t := &Tokenizer{vocab: int(d.Config.Size), ids: make(map[string]int32, d.Config.Size)}
	t.cuts = []cut{{at: at, dropRest: true}}
	t.decoder = decoder{bytes: true, apart: true, tokens: make([]piece, d.Config.Size)}
	words, err := ranks(d.Vocab[:size], int32(len(special)))
	if err != nil {
		return nil, err
	}
	t.model = bpe{vocab: words, unknown: -1, ignoreMerges: true, byteLevel: true, ranked: true, whole: true}
	for b := range t.model.bytes {
		t.model.bytes[b] = int32(len(special) + b)
	}
	for text, id := range words {
		t.ids[text] = id
		t.decoder.tokens[id] = piece{text: text}
	}
	for id, text := range special { // take precedence over equal words
		t.ids[text] = int32(id)
		t.decoder.tokens[id] = piece{skip: true}
	}
	t.before = []int32{int32(slices.Index(special, "<s>"))}
	if t.before[0] < 0 {
		return nil, errors.New(`special_tokens: "<s>" is missing, which begins a text`)
	}
	return t, nil
}

// special returns the special tokens by id, with generated names for unlisted ones.
func (d *tekken) special() ([]string, error) {
	version := slices.Index(tekkenVersions, d.Config.Version)
	switch {
	case version < 0:
		return nil, fmt.Errorf("config: found version %s, expected %s", quote(d.Config.Version), strings.Join(tekkenVersions, ", "))
	case d.Special == nil && version > slices.Index(tekkenVersions, "v7"):
		return nil, fmt.Errorf("special_tokens: missing, expected in version %s", d.Config.Version)
	}
	if d.Config.Special < 0 || d.Config.Special > mostSpecial {
		return nil, fmt.Errorf("config: found default_num_special_tokens %d, expected 0 to %d", d.Config.Special, mostSpecial)
	}
	names := firstSpecial
	if d.Special != nil {
		names = nil
		for i, s := range d.Special {
			if s.Rank != int64(i) {
				return nil, fmt.Errorf("special_tokens: found rank %d of %s, expected %d", s.Rank, quote(s.Text), i)
			}
			names = append(names, s.Text)
		}
	}
	if int64(len(names)) > d.Config.Special {
		return nil, fmt.Errorf("config: found default_num_special_tokens %d, expected at least %d, as there are so many", d.Config.Special,
			len(names))
	}
	names = slices.Clone(names)
	for id := len(names); int64(id) < d.Config.Special; id++ {
		names = append(names, fmt.Sprintf("<SPECIAL_%d>", id))
	}
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if seen[name] {
			return nil, fmt.Errorf("special_tokens: %s is listed twice", quote(name))
		}
		seen[name] = true
	}
	return names, nil
}

// ranks returns token ids starting at offset. The first 256 tokens must be the bytes.
func ranks(vocab []tekkenToken, offset int32) (map[string]int32, error) {
	ids := make(map[string]int32, len(vocab))
	for i, v := range vocab {
		if v.Rank != int64(i) {
			return nil, fmt.Errorf("vocab: found rank %d, expected %d", v.Rank, i)
		}
		if v.Bytes == nil {
			return nil, fmt.Errorf("vocab: rank %d: token_bytes is missing", i)
		}
		text, err := base64.StdEncoding.DecodeString(*v.Bytes)
		switch {
		case err != nil:
			return nil, fmt.Errorf("vocab: rank %d: found token_bytes %s, expected base64", i, quote(*v.Bytes))
		case len(text) == 0:
			return nil, fmt.Errorf("vocab: rank %d: is empty", i)
		case i < 256 && string(text) != string([]byte{byte(i)}):
			return nil, fmt.Errorf("vocab: rank %d: found %s, expected the byte of that value", i, quote(string(text)))
		}
		if other, ok := ids[string(text)]; ok {
			return nil, fmt.Errorf("vocab: ranks %d and %d are both %s", other-offset, i, quote(string(text)))
		}
		ids[string(text)] = offset + int32(i)
	}
	return ids, nil
}
