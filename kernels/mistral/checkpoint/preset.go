package checkpoint

import (
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// presets are the config.json of models by name.
var presets = map[string]string{
	"mistral-7b": `{"model_type": "mistral", "vocab_size": 32768, "max_position_embeddings": 32768, "sliding_window": null,
		"rope_theta": 1e6, "rms_norm_eps": 1e-5}`,
	"mixtral-8x7b": `{"model_type": "mixtral", "max_position_embeddings": 32768}`,
	"llama3-8b": `{"model_type": "llama", "intermediate_size": 14336, "num_key_value_heads": 8, "vocab_size": 128256,
		"max_position_embeddings": 8192, "rope_theta": 5e5, "rms_norm_eps": 1e-5}`,
}

// Presets returns the names of [Preset] in order.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Preset returns the shape of a known model, in fp16. ok is false for other names.
func Preset(name string) (c Config, ok bool) {
	text, ok := presets[name]
	if !ok {
		return Config{}, false
	}
	c, err := parseConfig(name, []byte(text))
	c.DType = kernels.FP16
	return c, err == nil
}
