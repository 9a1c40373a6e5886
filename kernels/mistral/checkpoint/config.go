// Package checkpoint loads a model as Hugging Face stores it: a folder with config.json
// and weights in one safetensors file or in shards with an index.
//
// Nothing in these files is trusted: every number is checked against the file or
// against a bound before anything is allocated or computed from it, and a field of
// config.json that is not known here is an error, since it may change what the model
// computes. Weights are mapped into memory, not read. Those that GPTQ, AWQ or
// compressed-tensors made integers of are unpacked where they are asked for.
package checkpoint

import (
	"math"
	"os"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Config is what config.json says about a decoder of the Mistral and Llama families.
type Config struct {
	ModelType string // "mistral" or "llama"
	Hidden    int    // columns of the residual stream
	Inner     int    // columns between the projections of a gated unit
	Layers    int
	Vocab     int
	Heads     kernels.Heads
	Epsilon   float64 // of RMSNorm
	RopeTheta float64 // base of the rotary frequencies
	// Rope rescales the rotary frequencies; nil for none.
	Rope *RopeScaling
	// Window is how many tokens, its own included, a token attends to; 0 for all.
	Window int
	// Context is the longest sequence that the model was made for.
	Context int
	// Tied says that the output projection is the embedding table.
	Tied bool
	// DType is the type that the weights are declared to have: fp32, fp16 or bf16;
	// empty when config.json does not say, and [Open] then takes the embedding table's.
	DType kernels.DType
	// Quantization says how weights are stored as integers; nil where none are.
	Quantization *Quantization
	// BOS is the token that begins a text, -1 for none.
	BOS int
	// EOS are the tokens that end one.
	EOS []int
}

// Bounds of what a config may ask for. They are far above any model, and low enough that
// no product of sizes overflows.
const (
	maxWidth   = 1 << 20 // of Hidden, Inner, Query·Dim and KV·Dim
	maxLayers  = 1 << 12
	maxVocab   = 1 << 24
	maxContext = math.MaxInt32 // positions are int32 on devices
)

// maxJSON bounds the length of the JSON files beside the weights. The index of a model
// of a thousand layers has less than a tenth of it.
const maxJSON = 16 << 20

// ReadConfig reads a config.json of model_type mistral or llama. Missing fields have the
// defaults of transformers' MistralConfig and LlamaConfig. Both ways of writing types
// (torch_dtype, dtype) and rotary embeddings (rope_theta with rope_scaling,
// rope_parameters) are understood. A field that is not known, or has a value under
// which the model would compute something else, is an [*Error] that names both.
func ReadConfig(path string) (Config, error) {
	data, err := readJSON(path)
	if err != nil {
		return Config{}, err
	}
	return parseConfig(path, data)
}

// readJSON reads a file of at most maxJSON bytes.
func readJSON(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, systemError(path, "can't be read", err)
	case !info.Mode().IsRegular():
		return nil, refusef(path, "not a file")
	case info.Size() > maxJSON:
		return nil, refusef(path, "%d bytes long, expected at most %d", info.Size(), maxJSON)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, systemError(path, "can't be read", err)
	}
	return data, nil
}

// Weight is a tensor that a model of some config has, by Hugging Face's name.
type Weight struct {
	Name  string
	Shape []int // rows are outputs: [out, in]
}

// The tensors outside of the layers.
const (
	embedding = "model.embed_tokens.weight"
	lastNorm  = "model.norm.weight"
	output    = "lm_head.weight"
)

// Weights lists the tensors of the model, in the order in which a token meets them.
// The output projection is not among them when it is tied to the embedding table.
func (c Config) Weights() []Weight {
	h := c.Heads
	query, kv := h.Query*h.Dim, h.KV*h.Dim
	out := []Weight{{embedding, []int{c.Vocab, c.Hidden}}}
	for layer := range c.Layers {
		in := layerPrefix(layer)
		out = append(out,
			Weight{in + "input_layernorm.weight", []int{c.Hidden}},
			Weight{in + "self_attn.q_proj.weight", []int{query, c.Hidden}},
			Weight{in + "self_attn.k_proj.weight", []int{kv, c.Hidden}},
			Weight{in + "self_attn.v_proj.weight", []int{kv, c.Hidden}},
			Weight{in + "self_attn.o_proj.weight", []int{c.Hidden, query}},
			Weight{in + "post_attention_layernorm.weight", []int{c.Hidden}},
			Weight{in + "mlp.gate_proj.weight", []int{c.Inner, c.Hidden}},
			Weight{in + "mlp.up_proj.weight", []int{c.Inner, c.Hidden}},
			Weight{in + "mlp.down_proj.weight", []int{c.Hidden, c.Inner}},
		)
	}
	out = append(out, Weight{lastNorm, []int{c.Hidden}})
	if !c.Tied {
		out = append(out, Weight{output, []int{c.Vocab, c.Hidden}})
	}
	return out
}

// Parameters is the number of weights, those that two matrices share counted once.
func (c Config) Parameters() int64 {
	var n int64
	for _, w := range c.Weights() {
		product := int64(1)
		for _, d := range w.Shape {
			product *= int64(d)
		}
		n += product
	}
	return n
}
