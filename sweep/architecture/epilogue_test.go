package architecture

import (
	"strings"
	"testing"
)

// The biases of transformers 5 with these configurations, and the sums and gates of its layers.
func TestEpilogues(t *testing.T) {
	base := map[string]any{"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4,
		"num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256}
	for _, c := range []struct {
		of   map[string]any
		want map[string]string
	}{
		{map[string]any{"model_type": "llama"}, map[string]string{"qkv_proj": "", "o_proj": "residual", "gate_up_proj": "gated",
			"down_proj": "residual", "q_proj": "", "up_proj": "", "lm_head": ""}},
		{map[string]any{"model_type": "llama", "attention_bias": true, "mlp_bias": true}, map[string]string{"qkv_proj": "bias",
			"k_proj": "bias", "o_proj": "bias+residual", "gate_up_proj": "bias+gated", "gate_proj": "bias", "down_proj": "bias+residual"}},
		{map[string]any{"model_type": "qwen2"}, map[string]string{"qkv_proj": "bias", "v_proj": "bias", "o_proj": "residual",
			"gate_up_proj": "gated"}},
		{map[string]any{"model_type": "qwen3"}, map[string]string{"qkv_proj": "", "o_proj": "residual"}},
		{map[string]any{"model_type": "seed_oss"}, map[string]string{"qkv_proj": "bias", "o_proj": "residual"}},
		// Gates with another function than the epilogue's, by the file or by default.
		{map[string]any{"model_type": "gemma", "hidden_activation": "gelu_pytorch_tanh"}, map[string]string{
			"gate_up_proj": " gelu_pytorch_tanh", "down_proj": "residual"}},
		{map[string]any{"model_type": "gemma"}, map[string]string{"gate_up_proj": " gelu_pytorch_tanh", "o_proj": "residual"}},
		{map[string]any{"model_type": "gemma", "hidden_act": "gelu"}, map[string]string{"gate_up_proj": " gelu"}},
		{map[string]any{"model_type": "llama", "hidden_act": "gelu", "mlp_bias": true}, map[string]string{"gate_up_proj": "bias gelu"}},
		{map[string]any{"model_type": "gemma2", "attention_bias": true}, map[string]string{"qkv_proj": "bias", "o_proj": "bias",
			"gate_up_proj": " gelu_pytorch_tanh", "down_proj": ""}},
		{map[string]any{"model_type": "gemma3_text"}, map[string]string{"qkv_proj": "", "o_proj": "",
			"gate_up_proj": " gelu_pytorch_tanh", "down_proj": ""}},
		// A norm comes before the sum.
		{map[string]any{"model_type": "olmo2"}, map[string]string{"o_proj": "", "down_proj": "", "gate_up_proj": ""}},
		{map[string]any{"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}, map[string]string{
			"o_proj": "residual", "experts.gate_up_proj": "", "experts.down_proj": "", "router": ""}},
	} {
		for k, v := range base {
			if _, has := c.of[k]; !has {
				c.of[k] = v
			}
		}
		m, err := Of(c.of)
		if err != nil {
			t.Fatalf("%v: %v", c.of["model_type"], err)
		}
		weights, err := m.Weights(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, w := range weights {
			want, asked := c.want[w.Part]
			if !asked {
				continue
			}
			seen++
			f, err := m.Finish(w)
			got := ""
			if f.Epilogue != 0 {
				got = f.Epilogue.String()
			}
			if f.Beyond != "" {
				got += " " + strings.TrimSuffix(strings.Fields(f.Beyond)[3], ",")
			}
			if err != nil || got != want {
				t.Errorf("%s:%s has %q, expected %q: %v", m.Type, w.Part, got, want, err)
			}
		}
		if seen != len(c.want) {
			t.Errorf("%s: %d of %d parts seen", m.Type, seen, len(c.want))
		}
	}
	bad := map[string]any{"model_type": "llama", "attention_bias": "yes"}
	for k, v := range base {
		bad[k] = v
	}
	m, err := Of(bad)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := m.Finish(Weight{Part: "qkv_proj", PerLayer: true}); err == nil {
		t.Errorf("a bias of \"yes\" is %v", f.Epilogue)
	}
}
