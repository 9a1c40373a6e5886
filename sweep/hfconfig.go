package sweep

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// modelTypes are the architectures of Hugging Face whose projections have the
// shapes that this package computes. Mixtures of experts are not among them:
// their products are grouped, with an M for each expert.
var modelTypes = []string{"llama", "mistral", "qwen2", "qwen3"}

// maxConfigBytes bounds a configuration file; real ones are a few KiB.
const maxConfigBytes = 1 << 20

// hfConfig are the fields of config.json that decide shapes. Pointers tell an
// absent field from a zero.
type hfConfig struct {
	ModelType    *string         `json:"model_type"`
	Hidden       *int            `json:"hidden_size"`
	Intermediate *int            `json:"intermediate_size"`
	Heads        *int            `json:"num_attention_heads"`
	KVHeads      *int            `json:"num_key_value_heads"`
	HeadDim      *int            `json:"head_dim"`
	Vocab        *int            `json:"vocab_size"`
	Text         json.RawMessage `json:"text_config"`
}

// ReadModel reads a Hugging Face config.json, or the one in the folder path. The
// model's name is that of the folder it lies in.
func ReadModel(path string) (Model, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, "config.json")
	}
	f, err := os.Open(path)
	if err != nil {
		return Model{}, fmt.Errorf("model configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return Model{}, fmt.Errorf("model configuration %q: %w", path, err)
	}
	name := filepath.Base(filepath.Dir(path))
	if abs, err := filepath.Abs(path); err == nil {
		name = filepath.Base(filepath.Dir(abs))
	}
	m, err := parseConfig(data, name)
	if err != nil {
		return Model{}, fmt.Errorf("model configuration %q: %w", path, err)
	}
	return m, nil
}

// parseConfig reads the text of a config.json.
func parseConfig(data []byte, name string) (Model, error) {
	if len(data) > maxConfigBytes {
		return Model{}, fmt.Errorf("it is larger than %d bytes, which no configuration is", maxConfigBytes)
	}
	var c hfConfig
	if err := json.Unmarshal(data, &c); err != nil {
		return Model{}, fmt.Errorf("it is not a configuration: %w", err)
	}
	if c.Hidden == nil && len(c.Text) > 0 {
		// Models that also see keep the decoder's numbers one level down.
		var inner hfConfig
		if err := json.Unmarshal(c.Text, &inner); err != nil {
			return Model{}, fmt.Errorf("its text_config is not a configuration: %w", err)
		}
		c = inner
	}
	if c.ModelType == nil {
		return Model{}, fmt.Errorf("field model_type is missing")
	}
	if !slices.Contains(modelTypes, *c.ModelType) {
		return Model{}, fmt.Errorf("unknown model_type %q: expected one of %s", *c.ModelType, strings.Join(modelTypes, ", "))
	}
	m := Model{Name: name}
	for _, f := range []struct {
		name     string
		from     *int
		to       *int
		limit    int
		optional bool
	}{
		{"hidden_size", c.Hidden, &m.Hidden, 1 << 20, false},
		{"intermediate_size", c.Intermediate, &m.Intermediate, 1 << 20, false},
		{"num_attention_heads", c.Heads, &m.Heads, 1 << 14, false},
		{"num_key_value_heads", c.KVHeads, &m.KVHeads, 1 << 14, true},
		{"head_dim", c.HeadDim, &m.HeadDim, 1 << 14, true},
		{"vocab_size", c.Vocab, &m.Vocab, MaxDimension, false},
	} {
		switch {
		case f.from == nil && f.optional:
		case f.from == nil:
			return Model{}, fmt.Errorf("field %s is missing", f.name)
		case *f.from < 1 || *f.from > f.limit:
			return Model{}, fmt.Errorf("field %s is %d, expected 1 to %d", f.name, *f.from, f.limit)
		default:
			*f.to = *f.from
		}
	}
	if m.KVHeads == 0 {
		m.KVHeads = m.Heads // multi-head attention has no field for it
	}
	if m.HeadDim == 0 {
		if m.Hidden%m.Heads != 0 {
			return Model{}, fmt.Errorf("field head_dim is missing and %d columns don't divide into %d heads", m.Hidden, m.Heads)
		}
		m.HeadDim = m.Hidden / m.Heads
	}
	if m.Heads%m.KVHeads != 0 {
		return Model{}, fmt.Errorf("field num_key_value_heads is %d, expected a divisor of the %d heads", m.KVHeads, m.Heads)
	}
	return m, nil
}
