// Package checkpoint loads a model in Hugging Face's format: a folder with config.json and weights in one
// safetensors file or in shards with an index.
//
// The files are untrusted: every number is checked against the file or a limit before it is used. Unknown
// fields of config.json are errors, since they may change what the model computes. Weights are mapped into
// memory, not read. Weights quantized by GPTQ, AWQ or compressed-tensors, and fp8 with scales, are unpacked on demand.
package checkpoint

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
)

// Config is the config.json of a decoder of the Mistral, Llama or Qwen3 family.
type Config struct {
	ModelType string // "mistral", "mixtral", "llama" or "qwen3"
	Hidden    int    // width of the residual stream
	Inner     int    // width of the gated unit, or of one expert
	Layers    int
	// Experts is the number of gated units per layer that a router chooses from; 0 if there is one and no router.
	Experts int
	// TopK is the number of experts that each token goes through.
	TopK  int
	Vocab int
	Heads kernels.Heads
	// HeadNorms means that query and key heads are normalized before they are rotated.
	HeadNorms bool
	Epsilon   float64 // of RMSNorm
	RopeTheta float64 // base of the rotary frequencies
	// Rope rescales the rotary frequencies; nil for none.
	Rope *RopeScaling
	// Window is the number of tokens that a token attends to, including itself; 0 for all.
	Window int
	// Context is the longest supported sequence.
	Context int
	// Tied means that the output projection is the embedding table.
	Tied bool
	// DType is the declared type of the weights: fp32, fp16 or bf16; empty if config.json has none. [Open]
	// then takes the embedding table's.
	DType kernels.DType
	// Quantization describes quantized weights; nil if there are none.
	Quantization *Quantization
	// BOS is the token that begins a text, -1 for none.
	BOS int
	// EOS are the tokens that end a text.
	EOS []int
}

// Limits of a config: far above any model, and low enough that no product of sizes overflows.
const (
	maxWidth   = 1 << 20 // of Hidden, Inner, Query·Dim and KV·Dim
	maxLayers  = 1 << 12
	maxVocab   = 1 << 24
	maxContext = math.MaxInt32 // positions are int32 on devices
	maxExperts = 1 << 10
	// maxAllExperts limits the experts of all layers, because their tensors are listed before any is looked up.
	maxAllExperts = 1 << 16
)

// maxJSON limits the size of JSON files. The index of a model with a thousand layers has less than a tenth of
// it.
const maxJSON = 16 << 20

// ReadConfig reads a config.json of model_type mistral, mixtral, llama or qwen3. Missing fields have the defaults of
// transformers' MistralConfig, MixtralConfig, LlamaConfig and Qwen3Config. It reads both spellings of types (torch_dtype, dtype) and
// rotary embeddings (rope_theta with rope_scaling, rope_parameters). An unknown field, or an unsupported
// value, is an [*Error] that names both.
func ReadConfig(path string) (Config, error) {
	data, err := regular.Read(path, maxJSON)
	if err != nil {
		return Config{}, err
	}
	return parseConfig(path, data)
}

// Weight is a tensor of a model, by Hugging Face's name.
type Weight struct {
	Name  string
	Shape []int // rows are outputs: [out, in]
}

// The tensors outside the layers.
const (
	embedding = "model.embed_tokens.weight"
	lastNorm  = "model.norm.weight"
	output    = "lm_head.weight"
)

// Weights lists the model's tensors in order of use, without a tied output projection.
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
		)
		if c.HeadNorms {
			query, key := c.HeadNormNames(layer)
			out = append(out, Weight{query, []int{h.Dim}}, Weight{key, []int{h.Dim}})
		}
		if c.Experts > 0 {
			out = append(out, Weight{c.Router(layer), []int{c.Experts, c.Hidden}})
		}
		for expert := range max(c.Experts, 1) {
			gate, up, down := c.GatedUnit(layer, expert)
			out = append(out, Weight{gate, []int{c.Inner, c.Hidden}}, Weight{up, []int{c.Inner, c.Hidden}},
				Weight{down, []int{c.Hidden, c.Inner}})
		}
	}
	out = append(out, Weight{lastNorm, []int{c.Hidden}})
	if !c.Tied {
		out = append(out, Weight{output, []int{c.Vocab, c.Hidden}})
	}
	return out
}

// HeadNormNames returns the names of the weights that normalize a layer's query and key heads.
func (c Config) HeadNormNames(layer int) (query, key string) {
	return layerPrefix(layer) + "self_attn.q_norm.weight", layerPrefix(layer) + "self_attn.k_norm.weight"
}

// Router returns the name of the weights [Experts, Hidden] whose products with a layer's rows choose the experts.
func (c Config) Router(layer int) string { return layerPrefix(layer) + "block_sparse_moe.gate.weight" }

// GatedUnit returns the names of the weights of a layer's gated unit, or of one of its experts.
func (c Config) GatedUnit(layer, expert int) (gate, up, down string) {
	in := layerPrefix(layer)
	if c.Experts == 0 {
		return in + "mlp.gate_proj.weight", in + "mlp.up_proj.weight", in + "mlp.down_proj.weight"
	}
	in += fmt.Sprintf("block_sparse_moe.experts.%d.", expert)
	return in + "w1.weight", in + "w3.weight", in + "w2.weight"
}

// ActiveParameters returns the number of weights that a token uses: all but the other tokens' experts.
func (c Config) ActiveParameters() int64 {
	expert := 3 * int64(c.Hidden) * int64(c.Inner)
	return c.Parameters() - int64(c.Layers)*int64(c.Experts-c.TopK)*expert
}

// Parameters returns the number of weights; shared ones count once.
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
