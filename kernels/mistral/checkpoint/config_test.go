package checkpoint

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Configs of published weights.
const (
	mistralV1 = `{"architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
		"hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
		"model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
		"rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": false,
		"torch_dtype": "bfloat16", "transformers_version": "4.34.0.dev0", "use_cache": true, "vocab_size": 32000}`
	mistralV3 = `{"architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
		"hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
		"max_position_embeddings": 32768, "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32,
		"num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "sliding_window": null,
		"tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.42.0.dev0", "use_cache": true,
		"vocab_size": 32768}`
	llama2 = `{"_name_or_path": "meta-llama/Llama-2-7b-hf", "architectures": ["LlamaForCausalLM"], "bos_token_id": 1,
		"eos_token_id": 2, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
		"max_position_embeddings": 4096, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
		"num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": null,
		"tie_word_embeddings": false, "torch_dtype": "float16", "transformers_version": "4.31.0.dev0", "use_cache": true,
		"vocab_size": 32000}`
	llama32 = `{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
		"bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
		"initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false,
		"model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
		"pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
		"low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
		"tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0", "use_cache": true,
		"vocab_size": 128256}`
	// The same as written by transformers 5.
	llama32v5 = `{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
		"bos_token_id": 128000, "dtype": "bfloat16", "eos_token_id": [128001, 128008, 128009], "head_dim": 64, "hidden_act": "silu",
		"hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072,
		"mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16,
		"num_key_value_heads": 8, "pad_token_id": null, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
		"rope_parameters": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
		"original_max_position_embeddings": 8192, "rope_theta": 500000.0, "rope_type": "llama3"},
		"tie_word_embeddings": true, "transformers_version": "5.0.0", "use_cache": true, "vocab_size": 128256}`
	mixtral8x7b = `{"architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
		"hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
		"max_position_embeddings": 32768, "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2,
		"num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": false,
		"rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": null,
		"tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.36.0.dev0", "use_cache": true,
		"vocab_size": 32000}`
	// As transformers 5 writes it.
	mixtral8x22b = `{"architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "dtype": "bfloat16",
		"eos_token_id": 2, "head_dim": null, "hidden_act": "silu", "hidden_size": 6144, "initializer_range": 0.02,
		"intermediate_size": 16384, "max_position_embeddings": 65536, "model_type": "mixtral", "num_attention_heads": 48,
		"num_experts_per_tok": 2, "num_hidden_layers": 56, "num_key_value_heads": 8, "num_local_experts": 8,
		"output_router_logits": false, "pad_token_id": null, "rms_norm_eps": 1e-05,
		"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "router_aux_loss_coef": 0.001,
		"router_jitter_noise": 0.0, "sliding_window": null, "tie_word_embeddings": false, "transformers_version": "5.23.0",
		"use_cache": true, "vocab_size": 32768}`
)

func TestPublishedConfigs(t *testing.T) {
	v1 := Config{
		ModelType: "mistral", Hidden: 4096, Inner: 14336, Layers: 32, Vocab: 32000,
		Heads: kernels.Heads{Query: 32, KV: 8, Dim: 128}, Epsilon: 1e-5, RopeTheta: 1e4,
		Window: 4096, Context: 32768, DType: kernels.BF16, BOS: 1, EOS: []int{2},
	}
	v3 := v1
	v3.RopeTheta, v3.Window, v3.Vocab = 1e6, 0, 32768
	l2 := v1
	l2.ModelType, l2.Inner, l2.Heads.KV, l2.Window, l2.Context, l2.DType = "llama", 11008, 32, 0, 4096, kernels.FP16
	l32 := Config{
		ModelType: "llama", Hidden: 2048, Inner: 8192, Layers: 16, Vocab: 128256,
		Heads: kernels.Heads{Query: 32, KV: 8, Dim: 64}, Epsilon: 1e-5, RopeTheta: 5e5,
		Rope:    &RopeScaling{Factor: 32, LowFreq: 1, HighFreq: 4, Original: 8192},
		Context: 131072, Tied: true, DType: kernels.BF16, BOS: 128000, EOS: []int{128001, 128008, 128009},
	}
	bareMistral, bareLlama := v1, l2
	bareMistral.Context, bareMistral.Epsilon, bareMistral.DType = 131072, 1e-6, ""
	bareLlama.Context, bareLlama.Epsilon, bareLlama.DType = 2048, 1e-6, ""
	m7 := v3
	m7.ModelType, m7.Vocab, m7.Experts, m7.TopK = "mixtral", 32000, 8, 2
	m22 := m7
	m22.Hidden, m22.Inner, m22.Layers, m22.Vocab, m22.Heads.Query, m22.Context = 6144, 16384, 56, 32768, 48, 65536
	bareMixtral := m7
	bareMixtral.Context, bareMixtral.DType = 131072, ""
	for _, test := range []struct {
		name, json string
		want       Config
		parameters int64 // from the model cards
	}{
		{"mixtral 8x7b", mixtral8x7b, m7, 46_702_792_704},
		{"mixtral 8x22b of transformers 5", mixtral8x22b, m22, 140_630_071_296},
		{"mixtral's defaults", `{"model_type": "mixtral"}`, bareMixtral, 46_702_792_704},
		{"mistral 7b v0.1", mistralV1, v1, 7_241_732_096},
		{"mistral 7b v0.3", mistralV3, v3, 7_248_023_552},
		{"llama 2 7b", llama2, l2, 6_738_415_616},
		{"llama 3.2 1b", llama32, l32, 1_235_814_400},
		{"llama 3.2 1b of transformers 5", llama32v5, l32, 1_235_814_400},
		{"mistral's defaults", `{"model_type": "mistral"}`, bareMistral, 7_241_732_096},
		{"llama's defaults", `{"model_type": "llama"}`, bareLlama, 6_738_415_616},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.json")
			if err := os.WriteFile(path, []byte(test.json), 0o666); err != nil {
				t.Fatal(err)
			}
			got, err := ReadConfig(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if n := got.Parameters(); n != test.parameters {
				t.Errorf("%d parameters, expected %d", n, test.parameters)
			}
		})
	}
}

func with(fields string) string {
	return strings.TrimSuffix(mistralV1, "}") + ", " + fields + "}"
}

func routed(fields string) string {
	return strings.TrimSuffix(mixtral8x7b, "}") + ", " + fields + "}"
}

func TestActiveParameters(t *testing.T) {
	for text, want := range map[string]int64{mixtral8x7b: 12_879_925_248, mistralV3: 7_248_023_552,
		routed(`"num_experts_per_tok": 8`): 46_702_792_704} {
		c, err := parseConfig("config.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if n := c.ActiveParameters(); n != want {
			t.Errorf("%d active parameters, expected %d of %s", n, want, text)
		}
	}
}

func TestConfigFields(t *testing.T) {
	base := func(t *testing.T) Config {
		c, err := parseConfig("config.json", []byte(mistralV1))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, test := range []struct {
		fields string
		change func(*Config)
	}{
		{`"head_dim": 64`, func(c *Config) { c.Heads.Dim = 64 }},
		{`"head_dim": null`, func(*Config) {}},
		{`"num_key_value_heads": null`, func(c *Config) { c.Heads.KV = 32 }},
		{`"eos_token_id": null`, func(c *Config) { c.EOS = nil }},
		{`"eos_token_id": []`, func(c *Config) { c.EOS = []int{} }},
		{`"eos_token_id": [7, 9]`, func(c *Config) { c.EOS = []int{7, 9} }},
		{`"bos_token_id": null`, func(c *Config) { c.BOS = -1 }},
		{`"bos_token_id": 0`, func(c *Config) { c.BOS = 0 }},
		{`"dtype": "float32"`, func(c *Config) { c.DType = kernels.FP32 }},
		{`"torch_dtype": null`, func(c *Config) { c.DType = "" }},
		{`"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}`, func(c *Config) { c.RopeTheta = 5e5 }},
		{`"rope_parameters": {"rope_type": "default"}`, func(*Config) {}},
		{`"rope_parameters": null`, func(*Config) {}},
		{`"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}`, func(c *Config) {
			c.Rope = &RopeScaling{Factor: 8, LowFreq: 1, HighFreq: 4, Original: 32768}
		}},
		{`"partial_rotary_factor": 1.0, "pretraining_tp": null, "pruned_heads": { }, "mlp_bias": false`, func(*Config) {}},
		{`"rope_theta": 1e6, "rope_scaling": {"rope_type": "default"}, "rope_parameters": {"rope_theta": 1e6}`,
			func(c *Config) { c.RopeTheta = 1e6 }},
	} {
		got, err := parseConfig("config.json", []byte(with(test.fields)))
		if err != nil {
			t.Errorf("%s: %v", test.fields, err)
			continue
		}
		want := base(t)
		test.change(&want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", test.fields, diff)
		}
	}
}

func TestBadConfigs(t *testing.T) {
	for _, test := range []struct{ json, want string }{
		{``, "not a JSON object"},
		{`null`, "not a JSON object"},
		{`[1]`, "not a JSON object"},
		{`{`, "not a JSON object"},
		{`{}`, `model_type is "": only mistral, mixtral`},
		{`{"model_type": "gemma2"}`, `model_type is "gemma2": only mistral, mixtral`},
		{`{"model_type": 3}`, "model_type is 3: expected a name"},
		{with(`"hidden_size": 0`), "hidden_size is 0: expected 1 to 1048576"},
		{with(`"hidden_size": -4096`), "hidden_size is -4096: expected 1 to"},
		{with(`"hidden_size": 4096.5`), "hidden_size is 4096.5: expected an integer"},
		{with(`"hidden_size": null`), "hidden_size is null: expected a number"},
		{with(`"hidden_size": 99999999999999999999`), "hidden_size is 99999999999999999999: expected an integer"},
		{with(`"hidden_size": 4000000`), "hidden_size is 4000000: expected 1 to 1048576"},
		{with(`"hidden_size": 4097`), "hidden_size is 4097: 32 attention heads do not"},
		{with(`"vocab_size": 1000000000`), "vocab_size is 1000000000: expected 1 to 16777216"},
		{with(`"num_hidden_layers": 5000`), "num_hidden_layers is 5000: expected 1 to 4096"},
		{with(`"num_key_value_heads": 5`), "32 query heads do not"},
		{with(`"head_dim": 33`), "a head of 33 elements has no halves"},
		{with(`"head_dim": 1000000`), "num_attention_heads is 32: with a head_dim of 1000000"},
		{with(`"head_dim": 0`), "head_dim is 0: expected 1 to"},
		{with(`"rms_norm_eps": 0`), "rms_norm_eps is 0: expected more than 0"},
		{with(`"rms_norm_eps": "small"`), `rms_norm_eps is "small": expected a number`},
		{with(`"rope_theta": -1`), "rope_theta is -1: expected more than 0"},
		{with(`"rope_theta": 1e999`), "rope_theta is 1e999: expected a number"},
		{with(`"sliding_window": 0`), "sliding_window is 0: expected 1 to"},
		{with(`"sliding_window": "4k"`), `sliding_window is "4k": expected an integer`},
		{with(`"tie_word_embeddings": 1`), "tie_word_embeddings is 1: expected true or false"},
		{with(`"torch_dtype": "float64"`), `torch_dtype is "float64": expected float32, float16`},
		{with(`"eos_token_id": 32000`), "eos_token_id is 32000: expected a token"},
		{with(`"eos_token_id": [2, -1]`), "eos_token_id is -1: expected a token"},
		{with(`"eos_token_id": "</s>"`), `eos_token_id is "</s>": expected a token`},
		{with(`"bos_token_id": [1]`), "bos_token_id is [1]: expected a token"},
		{with(`"attention_bias": true`), "attention_bias is true: only false is supported"},
		{with(`"mlp_bias": true`), "mlp_bias is true: only false is supported"},
		{with(`"hidden_act": "gelu"`), `hidden_act is "gelu": only "silu" is supported`},
		{with(`"pretraining_tp": 2`), "pretraining_tp is 2: only 1 is supported"},
		{with(`"partial_rotary_factor": 0.5`), "partial_rotary_factor is 0.5: only 1 is supported"},
		{with(`"auto_map": {"AutoModel": "x.Y"}`), `auto_map is {"AutoModel": "x.Y"}: only {} is supported`},
		{with(`"quantization_config": {"bits": 4}`), `quantization_config.quant_method is "": expected gptq, awq`},
		{with(`"layer_types": ["full_attention"]`), "unknown field layer_types"},
		{with(`"\rfinal\u0000": 30`), `unknown field "\rfinal\x00" with value 30`},
		{with(`"final_logit_softcapping": 30`), "unknown field final_logit_softcapping with value 30"},
		{with(`"notes": "` + strings.Repeat("x", 1000) + `"`), "xxxx…"},
		{with(`"rope_scaling": 3`), "rope_scaling.not a JSON object"},
		{with(`"rope_scaling": {"type": "linear", "factor": 2}`), `rope_scaling.rope_type is "linear": only default and llama3`},
		{with(`"rope_parameters": {"rope_type": "yarn", "factor": 2}`), `rope_parameters.rope_type is "yarn"`},
		{with(`"rope_parameters": {"rope_type": "default", "factor": 2}`), "unknown field rope_parameters.factor with value 2"},
		{with(`"rope_parameters": {"top_p": 2}`), "unknown field rope_parameters.top_p"},
		{with(`"rope_parameters": {"partial_rotary_factor": 0.25}`), "rope_parameters.partial_rotary_factor is 0.25: only 1"},
		{with(`"rope_scaling": {"type": "llama3", "low_freq_factor": 1, "high_freq_factor": 4}`), "rope_scaling.factor is missing"},
		{with(`"rope_scaling": {"type": "llama3", "factor": 0.5, "low_freq_factor": 1, "high_freq_factor": 4}`),
			"rope_scaling.factor is 0.5: expected at least 1"},
		{with(`"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}`),
			"rope_scaling.high_freq_factor is 4: expected more than low_freq_factor"},
		{with(`"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 0, "high_freq_factor": 4}`),
			"rope_scaling.low_freq_factor is 0: expected more than 0"},
		{with(`"rope_scaling": {"rope_theta": 5}, "rope_parameters": {"rope_theta": 6}`), "rope_scaling says something else"},
		{with(`"num_local_experts": 8`), "unknown field num_local_experts with value 8"},
		{routed(`"num_local_experts": 0`), "num_local_experts is 0: expected 1 to 1024"},
		{routed(`"num_local_experts": 2000`), "num_local_experts is 2000: expected 1 to 1024"},
		{routed(`"num_local_experts": null`), "num_local_experts is null: expected a number"},
		{routed(`"num_local_experts": 1`), "num_experts_per_tok is 2: expected at most the 1 of num_local_experts"},
		{routed(`"num_experts_per_tok": 9`), "num_experts_per_tok is 9: expected at most the 8 of num_local_experts"},
		{routed(`"num_experts_per_tok": 0`), "num_experts_per_tok is 0: expected 1 to"},
		{routed(`"num_local_experts": 1000, "num_hidden_layers": 100`), "num_local_experts is 1000: in 100 layers that is"},
		{routed(`"sliding_window": 0`), "sliding_window is 0: expected 1 to"},
		{routed(`"shared_expert_intermediate_size": 64`), "unknown field shared_expert_intermediate_size"},
		{`{"model_type": "llama", "sliding_window": 4096}`, "sliding_window is 4096: a llama model has"},
	} {
		_, err := parseConfig("some/config.json", []byte(test.json))
		var typed *Error
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "some/config.json: ") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s:\n got %v\nwant %s", test.json, err, test.want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, s := range []string{mistralV1, mistralV3, llama2, llama32, llama32v5, mixtral8x7b, mixtral8x22b,
		with(`"head_dim": 64, "rope_scaling": {"type": "linear"}`)} {
		f.Add([]byte(s))
	}
	for _, name := range quantizedFixtures {
		text, err := os.ReadFile(filepath.Join("testdata", name, configFile))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig("config.json", data)
		if err != nil {
			var typed *Error
			if !errors.As(err, &typed) {
				t.Fatalf("%T", err)
			}
			return
		}
		if q := c.Quantization; q != nil && (q.Bits != 4 && q.Bits != 8 || q.Group < 0 || q.Group > maxWidth) {
			t.Fatalf("%+v", q)
		}
		if err := c.Heads.Validate(); err != nil {
			t.Fatal(err)
		}
		if n := c.Parameters(); n < int64(c.Hidden)*int64(c.Vocab) {
			t.Fatalf("%d parameters", n)
		}
		for _, x := range c.RopeTable(3) {
			if !(math.Abs(float64(x)) <= 1) {
				t.Fatalf("%v in the table of %+v", x, c)
			}
		}
	})
}

// The frequencies that transformers 5.23 computes in fp32.
func TestRopeScaling(t *testing.T) {
	c, err := parseConfig("config.json", []byte(llama32))
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]float64{0: 1, 5: 0.128687382, 14: 0.00321144611, 15: 0.00129054801, 16: 0.000429556705, 17: 9.70828623e-05,
		18: 1.94616387e-05, 25: 1.10288363e-06, 31: 9.41830649e-08}
	const far = 1000
	table := c.RopeTable(far + 1)
	for pair, f := range want {
		sin, cos := math.Sincos(far * f)
		got := table[far*c.Heads.Dim+2*pair:]
		if tolerance := far*f*1e-6 + 1e-6; math.Abs(float64(got[0])-cos) > tolerance || math.Abs(float64(got[1])-sin) > tolerance {
			t.Errorf("pair %d: %v, expected %v %v", pair, got[:2], cos, sin)
		}
	}
}

func TestRopeTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Heads:     kernels.Heads{Query: 1, KV: 1, Dim: 2 * rapid.IntRange(1, 64).Draw(t, "half")},
			RopeTheta: rapid.SampledFrom([]float64{1e4, 5e5, 1e6}).Draw(t, "theta"),
		}
		positions := rapid.IntRange(1, 3000).Draw(t, "positions")
		table := c.RopeTable(positions)
		if len(table) != positions*c.Heads.Dim {
			t.Fatalf("%d elements", len(table))
		}
		p, i := rapid.IntRange(0, positions-1).Draw(t, "p"), rapid.IntRange(0, c.Heads.Dim/2-1).Draw(t, "i")
		angle := float64(p) / math.Pow(c.RopeTheta, float64(2*i)/float64(c.Heads.Dim))
		got := table[p*c.Heads.Dim+2*i:]
		if math.Abs(float64(got[0])-math.Cos(angle)) > 1e-7 || math.Abs(float64(got[1])-math.Sin(angle)) > 1e-7 {
			t.Fatalf("position %d, pair %d: %v, expected the cosine and sine of %v", p, i, got[:2], angle)
		}
	})
	if (Config{Heads: kernels.Heads{Dim: 8}}).RopeTable(0) != nil {
		t.Error("a table of no positions")
	}
}
