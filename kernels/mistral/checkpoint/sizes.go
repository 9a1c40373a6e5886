package checkpoint

import (
	"github.com/gemmaudit/gemmaudit/kernels"
)

// Sizes are the fields of config.json that determine the shapes of a decoder's products.
type Sizes struct {
	Hidden int // width of the residual stream
	Inner  int // width of the gated unit
	Vocab  int
	Heads  kernels.Heads
	Layers int // 0 if the file does not say
}

// readSizes reads the sizes. Fields without a default in d are required.
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
		h.KV = d.kvHeads // null, unlike a missing field, means as many as queries
	}
	h.KV = f.sizeOrNull("num_key_value_heads", h.KV, maxWidth)
	if h.Dim = f.sizeOrNull("head_dim", d.headDim, maxWidth); h.Dim == 0 && f.err == nil {
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
