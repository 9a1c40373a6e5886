package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// defaults are transformers' defaults for missing fields (configuration_mistral.py, configuration_mixtral.py and
// configuration_llama.py of transformers 5).
type defaults struct {
	hidden, inner, heads, kvHeads, vocab, context int
	window                                        int  // 0 for none
	windowless                                    bool // attention ignores sliding_window
	experts, topK                                 int  // 0 for a dense model
	headDim                                       int  // 0 for hidden ÷ heads
	headNorms                                     bool
	epsilon, theta                                float64
}

var families = map[string]defaults{
	"mistral": {hidden: 4096, inner: 14336, heads: 32, kvHeads: 8, vocab: 32000, context: 4096 * 32, window: 4096,
		epsilon: 1e-6, theta: 1e4},
	"mixtral": {hidden: 4096, inner: 14336, heads: 32, kvHeads: 8, vocab: 32000, context: 4096 * 32, experts: 8, topK: 2,
		epsilon: 1e-5, theta: 1e6},
	"llama": {hidden: 4096, inner: 11008, heads: 32, vocab: 32000, context: 2048, // as many key-value heads as query heads
		windowless: true, epsilon: 1e-6, theta: 1e4},
	"qwen3": {hidden: 4096, inner: 22016, heads: 32, kvHeads: 32, vocab: 151936, context: 32768, headDim: 128,
		windowless: true, headNorms: true, epsilon: 1e-6, theta: 1e4},
}

// neutral are fields with a single supported value, with which they have no effect; null is also accepted.
var neutral = map[string]string{
	"add_cross_attention":     "false",
	"attention_bias":          "false",
	"auto_map":                "{}",
	"chunk_size_feed_forward": "0",
	"hidden_act":              `"silu"`,
	"is_encoder_decoder":      "false",
	"mlp_bias":                "false",
	"partial_rotary_factor":   "1",
	"pretraining_tp":          "1",
	"pruned_heads":            "{}",
	"rope_interleaved":        "false",
	"use_sliding_window":      "false",
}

// ignored are fields that can't change generation: notes about the file, training, and token search defaults
// of older versions.
var ignored = set(
	"_attn_implementation", "_attn_implementation_autoset", "_commit_hash", "_flash_attn_2_enabled", "_name_or_path",
	"architectures", "attention_dropout", "attn_implementation", "bad_words_ids", "begin_suppress_tokens",
	"cross_attention_hidden_size", "decoder_start_token_id", "diversity_penalty", "do_sample", "early_stopping",
	"encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id",
	"forced_eos_token_id", "id2label", "initializer_range", "is_decoder", "label2id", "length_penalty", "max_length",
	"max_sequence_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_labels",
	"num_return_sequences", "output_attentions", "output_hidden_states", "output_router_logits", "output_scores",
	"pad_token_id", "prefix", "problem_type", "remove_invalid_values", "repetition_penalty", "return_dict",
	"return_dict_in_generate", "router_aux_loss_coef", "router_jitter_noise", "sep_token_id", "suppress_tokens",
	"task_specific_params", "temperature", "tf_legacy_loss", "tie_encoder_decoder", "tokenizer_class", "top_k",
	"top_p", "torchscript", "transformers_version", "typical_p", "unsloth_version", "use_bfloat16", "use_cache",
)

func set(names ...string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}

// fields reads a JSON object and keeps the first error. Fields are removed when read, so the remaining ones
// are unknown.
type fields struct {
	path, in string // in precedes names in errors: "rope_scaling."
	left     map[string]json.RawMessage
	err      error
}

func readFields(path, in string, data []byte) *fields {
	f := &fields{path: path, in: in}
	if err := json.Unmarshal(data, &f.left); err != nil {
		f.err = refusef(path, "%snot a JSON object: %v", in, err)
	} else if f.left == nil {
		f.err = refusef(path, "%snot a JSON object: null", in)
	}
	return f
}

func (f *fields) failf(name string, value any, format string, args ...any) {
	if f.err == nil {
		f.err = refusef(f.path, "%s%s is %v: %s", f.in, name, value, fmt.Sprintf(format, args...))
	}
}

// take returns and removes a field's value, nil if it is missing or null.
func (f *fields) take(name string) (value json.RawMessage, present bool) {
	value, present = f.left[name]
	delete(f.left, name)
	if string(value) == "null" {
		value = nil
	}
	return value, present
}

func read[T any](f *fields, name, expected string, to *T) bool {
	value, _ := f.take(name)
	if value == nil || f.err != nil {
		return false
	}
	if json.Unmarshal(value, to) != nil {
		f.failf(name, brief(value), "expected %s", expected)
		return false
	}
	return true
}

// size reads an integer from 1 to most. missing is the default; with 0 the field is required.
func (f *fields) size(name string, missing, most int) int {
	f.refuseNull(name)
	if _, present := f.left[name]; !present && missing == 0 && f.err == nil {
		f.err = refusef(f.path, "%s%s is missing", f.in, name)
	}
	return f.sizeOrNull(name, missing, most)
}

// sizeOrNull is size with null treated as missing.
func (f *fields) sizeOrNull(name string, missing, most int) int {
	n := missing
	if read(f, name, "an integer", &n) && (n < 1 || n > most) {
		f.failf(name, n, "expected 1 to %d", most)
	}
	return n
}

func (f *fields) refuseNull(name string) {
	if string(f.left[name]) == "null" {
		f.failf(name, "null", "expected a number")
	}
}

func (f *fields) positive(name string, missing float64) float64 {
	f.refuseNull(name)
	x := missing
	if read(f, name, "a number", &x) && (x <= 0 || math.IsInf(1/x, 0)) {
		f.failf(name, x, "expected more than 0")
	}
	return x
}

func (f *fields) finish() error {
	if f.err != nil {
		return f.err
	}
	for _, name := range slices.Sorted(maps.Keys(f.left)) {
		value := f.left[name]
		want, known := neutral[name]
		switch {
		case f.in == "" && ignored[name], known && (string(value) == "null" || sameJSON(value, want)):
		case known:
			return refusef(f.path, "%s%s is %s: only %s is supported", f.in, name, brief(value), want)
		default:
			return refusef(f.path, "unknown field %s%s with value %s: it may change what the model computes", f.in, named(name),
				brief(value))
		}
	}
	return nil
}

func sameJSON(value []byte, want string) bool {
	if x, err := strconv.ParseFloat(string(value), 64); err == nil {
		y, err := strconv.ParseFloat(want, 64)
		return err == nil && x == y
	}
	var compact bytes.Buffer
	return json.Compact(&compact, value) == nil && compact.String() == want
}

func parseConfig(path string, data []byte) (Config, error) {
	f := readFields(path, "", data)
	var c Config
	read(f, "model_type", "a name", &c.ModelType)
	if f.err != nil {
		return Config{}, f.err
	}
	d, ok := families[c.ModelType]
	if !ok {
		return Config{}, refusef(path, "model_type is %q: only mistral, mixtral, llama and qwen3 are supported", c.ModelType)
	}
	sizes := readSizes(f, d)
	c.Hidden, c.Inner, c.Heads, c.Vocab = sizes.Hidden, sizes.Inner, sizes.Heads, sizes.Vocab
	c.Layers = f.size("num_hidden_layers", 32, maxLayers)
	c.Context = f.size("max_position_embeddings", d.context, maxContext)
	c.Epsilon = f.positive("rms_norm_eps", d.epsilon)
	readExperts(f, &c, d)
	c.Window = readWindow(f, d)
	if c.HeadNorms = d.headNorms; c.HeadNorms {
		readLayerTypes(f)
	}
	read(f, "tie_word_embeddings", "true or false", &c.Tied)
	c.DType = readDType(f)
	c.Quantization = readQuantization(f)
	c.BOS, c.EOS = 1, []int{2}
	readTokens(f, &c)
	readRope(f, &c, d.theta)
	if err := f.finish(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// readWindow reads sliding_window: null means none, and only a missing field has a default. Llama's attention
// ignores it.
func readWindow(f *fields, d defaults) int {
	if d.windowless {
		if value, _ := f.take("sliding_window"); value != nil && !d.headNorms { // qwen3 has use_sliding_window
			f.failf("sliding_window", brief(value), "a llama model has none")
		}
		return 0
	}
	if value, present := f.left["sliding_window"]; !present {
		return d.window
	} else if string(value) == "null" {
		f.take("sliding_window")
		return 0
	}
	return f.size("sliding_window", 0, maxContext)
}

// readLayerTypes takes layers of full attention only, for qwen3.
func readLayerTypes(f *fields) {
	var types []string
	f.take("max_window_layers") // without windows
	read(f, "layer_types", "a list of names", &types)
	for _, t := range types {
		if t != "full_attention" {
			f.failf("layer_types", strconv.Quote(t), "only full_attention is supported")
		}
	}
}

// readExperts reads the number of experts, if the family has any. The router's training fields are ignored.
func readExperts(f *fields, c *Config, d defaults) {
	if d.experts == 0 {
		return
	}
	c.Experts = f.size("num_local_experts", d.experts, maxExperts)
	c.TopK = f.size("num_experts_per_tok", d.topK, maxExperts)
	switch {
	case f.err != nil:
	case c.TopK > c.Experts:
		f.failf("num_experts_per_tok", c.TopK, "expected at most the %d of num_local_experts", c.Experts)
	case c.Layers*c.Experts > maxAllExperts:
		f.failf("num_local_experts", c.Experts, "in %d layers that is more than %d experts", c.Layers, maxAllExperts)
	}
}

func readDType(f *fields) kernels.DType {
	var dtype kernels.DType
	for _, field := range []string{"torch_dtype", "dtype"} {
		var name string
		if !read(f, field, "a name", &name) {
			continue
		}
		switch name {
		case "float32":
			dtype = kernels.FP32
		case "float16":
			dtype = kernels.FP16
		case "bfloat16":
			dtype = kernels.BF16
		default:
			f.failf(field, strconv.Quote(name), "expected float32, float16 or bfloat16")
		}
	}
	return dtype
}

// readTokens sets c.BOS and c.EOS if present; null means none.
func readTokens(f *fields, c *Config) {
	check := func(name string, id int) {
		if id < 0 || id >= c.Vocab {
			f.failf(name, id, "expected a token of the vocabulary, 0 to %d", c.Vocab-1)
		}
	}
	if value, present := f.left["bos_token_id"]; present {
		c.BOS = -1
		if read(f, "bos_token_id", "a token", &c.BOS) {
			check("bos_token_id", c.BOS)
		} else if f.err == nil && string(value) != "null" {
			f.failf("bos_token_id", brief(value), "expected a token")
		}
	}
	if value, present := f.left["eos_token_id"]; present {
		c.EOS = nil
		if one := 0; json.Unmarshal(value, &one) == nil && string(value) != "null" {
			f.take("eos_token_id")
			c.EOS = []int{one}
		} else {
			read(f, "eos_token_id", "a token or a list of tokens", &c.EOS)
		}
		for _, id := range c.EOS {
			check("eos_token_id", id)
		}
	}
}
