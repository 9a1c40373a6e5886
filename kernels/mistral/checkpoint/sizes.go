package checkpoint

import (
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Sizes are the fields of config.json that decide the shapes of a decoder's products.
type Sizes struct {
	Hidden int // columns of the residual stream
	Inner  int // columns between the projections of a gated unit
	Vocab  int
	Heads  kernels.Heads
	Layers int // 0 where the file does not say
}

// sizedFamilies are the architectures whose projections have the shapes that [Sizes] tell.
// Mixtures of experts are not among them: their products are grouped, with an M for each
// expert.
var sizedFamilies = []string{"llama", "mistral", "qwen2", "qwen3"}

// ReadSizes reads the sizes of a model of type llama, mistral, qwen2 or qwen3 from a
// config.json. Models that also see keep them in text_config. Unlike [ReadConfig] it
// looks at nothing else, and knows no defaults: of the fields that it reads,
// num_key_value_heads, head_dim and num_hidden_layers alone may be missing.
func ReadSizes(path string) (Sizes, error) {
	data, err := readJSON(path)
	if err != nil {
		return Sizes{}, err
	}
	return parseSizes(path, data)
}

func parseSizes(path string, data []byte) (Sizes, error) {
	f := readFields(path, "", data)
	if inner := f.left["text_config"]; inner != nil && f.left["hidden_size"] == nil {
		f = readFields(path, "text_config.", inner)
	}
	var family string
	if !read(f, "model_type", "a name", &family) && f.err == nil {
		return Sizes{}, refusef(path, "%smodel_type is missing", f.in)
	}
	if f.err == nil && !slices.Contains(sizedFamilies, family) {
		f.failf("model_type", family, "expected one of %s", strings.Join(sizedFamilies, ", "))
	}
	s := readSizes(f, defaults{})
	s.Layers = f.sizeOrNull("num_hidden_layers", 0, maxLayers)
	return s, f.err
}

// readSizes reads the sizes. Where d has no default, a field may not be missing.
func readSizes(f *fields, d defaults) Sizes {
	s := Sizes{Hidden: f.size("hidden_size", d.hidden, maxWidth), Inner: f.size("intermediate_size", d.inner, maxWidth)}
	s.Heads = readHeads(f, s.Hidden, d)
	s.Vocab = f.size("vocab_size", d.vocab, maxVocab)
	return s
}

func readHeads(f *fields, hidden int, d defaults) kernels.Heads {
	h := kernels.Heads{Query: f.size("num_attention_heads", d.heads, maxWidth)}
	h.KV = h.Query
	if _, present := f.left["num_key_value_heads"]; !present && d.kvHeads != 0 {
		h.KV = d.kvHeads // null, unlike a missing field, is as many as queries
	}
	h.KV = f.sizeOrNull("num_key_value_heads", h.KV, maxWidth)
	if h.Dim = f.sizeOrNull("head_dim", 0, maxWidth); h.Dim == 0 && f.err == nil {
		if hidden%h.Query != 0 {
			f.failf("hidden_size", hidden, "%d attention heads do not divide it, and there is no head_dim", h.Query)
		}
		h.Dim = hidden / h.Query
	}
	if f.err != nil {
		return h
	}
	if err := h.Validate(); err != nil {
		f.err = &Error{Path: f.path, Reason: "impossible sizes", Err: err}
	} else if h.Query > maxWidth/h.Dim {
		f.failf("num_attention_heads", h.Query, "with a head_dim of %d that is more than %d columns", h.Dim, maxWidth)
	}
	return h
}
