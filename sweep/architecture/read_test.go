package architecture

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const llama = `"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_key_value_heads":8,` +
	`"num_hidden_layers":32,"vocab_size":128256`

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, text, want, hint string
	}{
		{"unknown type", `{"model_type":"gpt9"}`, `model_type is "gpt9"`, "--shape"},
		{"unknown class", `{"architectures":["LlamaForCausalLMMedusa"],` + llama + `}`, `"LlamaForCausalLMMedusa"`, "--shape"},
		{"class of another type", `{"architectures":["Qwen3ForCausalLM"],` + llama + `}`, `"Qwen3ForCausalLM"`, "--shape"},
		{"unknown number", `{` + llama + `,"extra_width":64}`, "extra_width with value 64", "remove it"},
		{"unknown number within", `{` + llama + `,"extra":{"widths":[64]}}`, `extra with value {"widths":[64]}`, "remove it"},
		{"unknown switch", `{` + llama + `,"wide":true}`, "wide with value true", "remove it"},
		{"infinite unknown", `{` + llama + `,"limits":[0.0,Infinity]}`, "limits with value [0.0,Infinity]", "remove it"},
		{"no type", `{"hidden_size":1}`, "model_type is missing", "published"},
		{"no language model", `{"model_type":"qwen3_vl"}`, "text_config is missing", "published"},
		{"two sizes", `{"model_type":"mistral3","hidden_size":1,"text_config":{` + llama + `}}`, "text_config.hidden_size is 4096",
			"published"},
		{"a default that is not computed", `{"model_type":"qwen3","hidden_size":4096,"num_key_value_heads":8}`, "head_dim is missing",
			"published"},
		{"classes", `{"architectures":"LlamaForCausalLM",` + llama + `}`, "expected a list", "published"},
		{"quantization", `{` + llama + `,"quantization_config":{"bits":4}}`, "quant_method is missing", "published"},
		{"something behind", `{` + llama + `}}`, "something follows it", ""},
		{"layers of a head", `{"architectures":["LlamaForCausalLMEagle3"],` + llama + `}`, "has one layer", "published"},
	} {
		_, err := Parse([]byte(c.text))
		var bad *Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) || !strings.Contains(bad.Hint, c.hint) {
			t.Errorf("%s: error %v with hint %q; expected %q and %q", c.name, err, bad, c.want, c.hint)
		}
	}
	if _, err := Read("Qwen/Qwen3-8B"); err == nil || !strings.Contains(err.Error(), "a local path") {
		t.Errorf("a hub's name: %v", err)
	}
}

func TestPythonNumbers(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":[NaN,-Infinity,Infinity]}`:        `[NaN,-Infinity,Infinity]`,
		`{"a":"Infinity \" NaN"}`:               `"Infinity \" NaN"`,
		`{"a":{"b":Infinity},"Infinity":false}`: `{"b":Infinity}`,
	} {
		got, err := readObject([]byte(text))
		if err != nil || brief(got["a"]) != want {
			t.Errorf("%s: %s, %v; expected %s", text, brief(got["a"]), err, want)
		}
	}
	for _, text := range []string{`{"a":Inf}`, `{"a":NaNa}`, `{"a":+Infinity}`, `Infinity`} {
		if got, err := readObject([]byte(text)); err == nil {
			t.Errorf("%s: read as %v", text, got)
		}
	}
	if _, err := Parse([]byte(`{` + llama + `,"rope_scaling":{"factor":Infinity}}`)); err != nil {
		t.Error(err)
	}
}

func TestElsewhere(t *testing.T) {
	m, err := Parse([]byte(`{"model_type":"mistral3","vision_config":{"hidden_size":1024},"text_config":{` + llama + `}}`))
	if err != nil || !slices.Equal(m.Elsewhere, []string{"vision"}) {
		t.Errorf("%v, %v; expected vision", m, err)
	}
	m, err = Parse([]byte(`{"architectures":["LlamaForSequenceClassification"],` + llama + `}`))
	if err != nil || slices.Contains(m.Parts(), "lm_head") {
		t.Errorf("a classifier: parts %v, %v", m.Parts(), err)
	}
}

func TestRanks(t *testing.T) {
	for _, c := range []struct {
		config string
		tp     int
		part   string
		n, k   int
		err    string
	}{
		{"deepseek-v3", 8, "qkv_a_proj", 2112, 7168, ""},
		{"deepseek-v3", 8, "q_b_proj", 3072, 1536, ""},
		{"deepseek-v3", 8, "o_proj", 7168, 2048, ""},
		{"deepseek-v3", 8, "experts.down_proj", 7168, 256, ""},
		{"deepseek-v3", 8, "router", 256, 7168, ""},
		{"qwen3-30b-a3b", 8, "qkv_proj", 6 * 128, 2048, ""},
		{"gemma-3-4b", 3, "q_proj", 0, 0, "q_proj can't be split over 3 ranks: it has 8 query heads"},
		{"nemotron-3-nano-30b-a3b", 4, "mamba.in_proj", 10304 / 4, 2688, ""},
		{"eagle3-llama-3.1-8b", 2, "qkv_proj", 3072, 8192, ""},
		{"eagle3-llama-3.1-8b", 2, "lm_head", 16000, 4096, ""},
	} {
		m, err := Read(filepath.Join("testdata/configs", c.config+".json"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Weights(c.tp, func(part string, _ bool) bool { return part == c.part })
		switch {
		case c.err != "":
			if err == nil || err.Error() != c.err {
				t.Errorf("%s of %d ranks: %v, expected %q", c.config, c.tp, err, c.err)
			}
		case err != nil || len(got) != 1 || got[0].N != c.n || got[0].K != c.k:
			t.Errorf("%s:%s of %d ranks: %+v, %v; expected n%d k%d", c.config, c.part, c.tp, got, err, c.n, c.k)
		}
	}
}

func TestStorage(t *testing.T) {
	weight := func(of string) Weight { return Weight{Of: of, PerLayer: of != "lm_head"} }
	for _, c := range []struct {
		text, want  string
		kept, taken []string
	}{
		{`{"quant_method":"gptq","bits":4,"group_size":128,"sym":true}`, "int4:128", []string{"lm_head"}, []string{"self_attn.q_proj"}},
		{`{"quant_method":"gptq","bits":8,"group_size":-1,"sym":false}`, "int8:column:zero", nil, []string{"mlp.down_proj"}},
		{`{"quant_method":"awq","w_bit":4,"q_group_size":64,"modules_to_not_convert":["mlp.gate"]}`, "int4:64:zero", []string{"mlp.gate"},
			[]string{"mlp.gate_proj"}},
		{`{"quant_method":"gptq","bits":3,"group_size":128}`, "gptq with 3 bits", nil, nil},
		{`{"quant_method":"fp8","weight_block_size":[128,128],"modules_to_not_convert":["model.layers.0.mlp.gate","lm_head"]}`,
			"fp8:128x128", []string{"mlp.gate", "lm_head"}, []string{"mlp.gate_proj"}},
		{`{"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float","strategy":"channel"},` +
			`"input_activations":{"num_bits":8,"type":"float","strategy":"token","dynamic":true}}},"ignore":["lm_head"]}`,
			"fp8:column", []string{"lm_head"}, []string{"mlp.down_proj"}},
		{`{"quant_method":"fp8"}`, "fp8 with a scale for a matrix", nil, nil},
		{`{"quant_method":"mxfp4","modules_to_not_convert":["model.layers.*.self_attn","model.layers.*.mlp.router"]}`, "mxfp4",
			[]string{"self_attn.q_proj", "mlp.router"}, []string{"mlp.experts.down_proj"}},
		{`{"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":4,"type":"int","strategy":"group",` +
			`"group_size":32,"symmetric":true}}},"ignore":["re:.*lm_head","lm_head"]}`,
			"int4:32", []string{"lm_head"}, []string{"mlp.down_proj"}},
		{`{"quant_method":"modelopt","quant_algo":"NVFP4","ignore":["model.layers.3.self_attn*"]}`, "nvfp4", []string{"self_attn.o_proj"},
			[]string{"mlp.up_proj"}},
	} {
		m, err := Parse([]byte(`{` + llama + `,"quantization_config":` + c.text + `}`))
		if err != nil || m.Stored.Text != c.want {
			t.Errorf("%s: %+v, %v; expected %s", c.text, m, err, c.want)
			continue
		}
		if !m.Stored.Keeps(Weight{Part: "router", Of: "block_sparse_moe.gate", PerLayer: true}) {
			t.Errorf("%s: the router is not kept", c.text)
		}
		for _, of := range c.kept {
			if !m.Stored.Keeps(weight(of)) {
				t.Errorf("%s: %s is not kept", c.text, of)
			}
		}
		for _, of := range c.taken {
			if m.Stored.Keeps(weight(of)) {
				t.Errorf("%s: %s is kept", c.text, of)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/configs/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{` + llama + `,"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		if err != nil {
			return
		}
		weights, err := m.Weights(1, nil)
		if err != nil {
			t.Fatalf("read, and then refused: %v", err)
		}
		for _, w := range weights {
			if w.N < 1 || w.K < 1 || w.N > maxSize || w.K > maxSize || w.Layers > maxLayers {
				t.Fatalf("%+v", w)
			}
		}
		for _, tp := range []int{2, 3, 1024} {
			_, _ = m.Weights(tp, nil)
			_, _ = m.Attention(tp)
		}
		_ = m.Uniform()
	})
}
