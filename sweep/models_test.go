package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/sweep/architecture"
)

func TestProjectionShapes(t *testing.T) {
	for _, c := range []struct {
		spec string
		tp   int
		want []Target
	}{
		{"llama3-8b", 1, []Target{
			{Name: "llama3-8b:qkv_proj", N: 6144, K: 4096}, {Name: "llama3-8b:o_proj", N: 4096, K: 4096, Epilogue: kernels.Residual},
			{Name: "llama3-8b:gate_up_proj", N: 28672, K: 4096, Epilogue: kernels.Gated},
			{Name: "llama3-8b:down_proj", N: 4096, K: 14336, Epilogue: kernels.Residual}}},
		{"LLAMA3-8B:k_proj", 1, []Target{{Name: "llama3-8b:k_proj", N: 1024, K: 4096}}},
		{"llama3-70b:gate_up_proj+down_proj", 8, []Target{
			{Name: "llama3-70b:gate_up_proj tp8", N: 7168, K: 8192, Epilogue: kernels.Gated},
			{Name: "llama3-70b:down_proj tp8", N: 8192, K: 3584}}},
		// Sixteen ranks share eight KV heads: each holds a whole one.
		{"llama3-70b:qkv_proj", 16, []Target{{Name: "llama3-70b:qkv_proj tp16", N: (4 + 2) * 128, K: 8192}}},
		{"llama3-70b:o_proj", 2, []Target{{Name: "llama3-70b:o_proj tp2", N: 8192, K: 4096}}},
		{"mistral-7b:lm_head", 1, []Target{{Name: "mistral-7b:lm_head", N: 32768, K: 4096}}},
		{"qwen2.5-7b:qkv_proj", 1, []Target{{Name: "qwen2.5-7b:qkv_proj", N: 4608, K: 3584, Epilogue: kernels.Bias}}},
		{"qwen2.5-7b:up_proj", 4, []Target{{Name: "qwen2.5-7b:up_proj tp4", N: 4736, K: 3584}}},
		{"qwen2.5-7b:lm_head", 2, []Target{{Name: "qwen2.5-7b:lm_head tp2", N: 76032, K: 3584}}},
	} {
		got, err := ParseModel(c.spec, c.tp)
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s tp %d: %v, %v; expected %v", c.spec, c.tp, got, err, c.want)
			continue
		}
		for i := range got {
			c.want[i].Model, c.want[i].Projection, c.want[i].Layers = got[i].Model, got[i].Projection, got[i].Layers
			if got[i] != c.want[i] || got[i].Model+":"+got[i].Projection != strings.Fields(got[i].Name)[0] {
				t.Errorf("%s tp %d: %v, expected %v", c.spec, c.tp, got[i], c.want[i])
			}
		}
	}
	for _, name := range ModelNames() {
		m, err := FindModel(name)
		if err != nil {
			t.Fatal(err)
		}
		if all, err := ParseModel(name+":all", 1); err != nil || len(all) != len(m.ProjectionNames()) {
			t.Errorf("%s:all gives %d of %d projections: %v", name, len(all), len(m.ProjectionNames()), err)
		}
	}
}

func TestModelErrors(t *testing.T) {
	for _, c := range []struct {
		spec string
		tp   int
		want string
	}{
		{"llama4", 1, `unknown model "llama4": expected one of llama3-8b`},
		{"", 1, "unknown model"},
		{"llama3-8b:", 1, "no name after the colon"},
		{"llama3-8b:mlp", 1, `unknown projection "mlp" of llama3-8b: expected all or one`},
		{"llama3-8b", 0, "tensor parallelism 0"},
		{"llama3-8b", 3, "qkv_proj can't be split over 3 ranks: it has 32 query heads"},
		{"llama3-8b:k_proj", 12, "it has 8 KV heads"},
		{"org/model-7b", 1, "local path"},
		{"qwen2.5-7b:down_proj", 3, "it has 18944 MLP columns"},
		{"no/such/config.json", 1, "no such file"},
	} {
		if got, err := ParseModel(c.spec, c.tp); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q tp %d: %v, error %v; expected %q", c.spec, c.tp, got, err, c.want)
		}
	}
}

func TestReadModel(t *testing.T) {
	const rest = `"intermediate_size": 5632, "num_attention_heads": 32, "num_key_value_heads": 4, "vocab_size": 32000`
	const full = `"hidden_size": 2048, ` + rest
	for _, c := range []struct {
		name, text string
		want       string
		err        string
	}{
		{name: "plain", text: `{"model_type": "llama", ` + full + `}`,
			want: "hidden 2048 inner 5632 heads 32/4 of 64 vocab 32000 layers 0"},
		{name: "layers", text: `{"model_type": "llama", "num_hidden_layers": 22, ` + full + `}`,
			want: "hidden 2048 inner 5632 heads 32/4 of 64 vocab 32000 layers 22"},
		{name: "absurd layers", text: `{"model_type": "llama", "num_hidden_layers": 5000, ` + full + `}`, err: "num_hidden_layers is 5000"},
		{name: "null head_dim", text: `{"model_type": "mistral", "head_dim": null, ` + full + `}`,
			want: "hidden 2048 inner 5632 heads 32/4 of 64 vocab 32000 layers 0"},
		{name: "own head_dim", text: `{"model_type": "qwen3", "head_dim": 128, ` + full + `}`,
			want: "hidden 2048 inner 5632 heads 32/4 of 128 vocab 32000 layers 0"},
		{name: "nested", text: `{"model_type": "mistral3", "text_config": {"model_type": "qwen2", ` + full + `}}`,
			want: "hidden 2048 inner 5632 heads 32/4 of 64 vocab 32000 layers 0"},
		{name: "no KV heads",
			text: `{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": 100}`,
			want: "hidden 64 inner 128 heads 4/4 of 16 vocab 100 layers 0"},
		{name: "nested, incomplete",
			text: `{"model_type": "mistral3", "text_config": {"model_type": "qwen2", "num_attention_heads": 4, "num_key_value_heads": 4, ` +
				`"head_dim": 64}}`, err: "text_config.hidden_size is missing"},
		{name: "unknown", text: `{"model_type": "seeing", "text_config": {"model_type": "qwen2", ` + full + `}}`,
			err: `model_type is "seeing", which is no known`},
		{name: "no type", text: `{` + full + `}`, err: "model_type is missing"},
		{name: "missing", text: `{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}`,
			err: "intermediate_size is missing"},
		{name: "zero", text: `{"model_type": "llama", "hidden_size": 0, ` + rest + `}`, err: "hidden_size is 0"},
		{name: "absurd", text: `{"model_type": "llama", "hidden_size": 4611686018427387904, ` + rest + `}`,
			err: "hidden_size is 4611686018427387904: expected an integer"},
		{name: "overflow", text: `{"model_type": "llama", "hidden_size": 1e30, ` + rest + `}`,
			err: "hidden_size is 1e30: expected an integer"},
		{name: "text", text: `{"model_type": "llama", "hidden_size": "many", ` + rest + `}`,
			err: `hidden_size is "many": expected an integer`},
		{name: "odd heads",
			text: `{"model_type": "llama", "hidden_size": 100, "intermediate_size": 1, "num_attention_heads": 3, "vocab_size": 1}`,
			err:  "hidden_size / num_attention_heads: 100 is no multiple of 3"},
		{name: "odd KV heads",
			text: `{"model_type": "llama", "head_dim": 8, "hidden_size": 100, "intermediate_size": 1, "num_attention_heads": 4, ` +
				`"num_key_value_heads": 3, "vocab_size": 1}`,
			err: "4 query heads do not"},
		{name: "not JSON", text: `hello`, err: "not a JSON object"},
		{name: "deep", text: strings.Repeat(`{"a":`, 20000), err: "not a JSON object"},
	} {
		dir := filepath.Join(t.TempDir(), "tiny")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "config.json")
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, dir} {
			got, err := ReadModel(p)
			switch {
			case c.err == "" && (err != nil || sizesOf(t, got) != c.want):
				t.Errorf("%s: %v; expected %s", c.name, err, c.want)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "config.json")):
				t.Errorf("%s: error %v, expected %q and the file's name", c.name, err, c.err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"model_type": "llama", `+full+`}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := ParseModel(path+":down_proj", 2); err != nil || len(got) != 1 || got[0].K != 2816 {
		t.Errorf("a path with a selector: %v, %v", got, err)
	}
	t.Chdir(filepath.Dir(path))
	for _, here := range []string{"config.json", "./config.json", "."} {
		if got, err := ReadModel(here); err != nil || got.Name != "llama" {
			t.Errorf("%s is named %q: %v", here, got.Name, err)
		}
	}
}

func sizesOf(t *testing.T, m Model) string {
	t.Helper()
	products, err := m.Projections(1, "q_proj", "down_proj", "lm_head")
	if err != nil {
		t.Fatal(err)
	}
	attention, err := m.Attention(1)
	if err != nil {
		t.Fatal(err)
	}
	heads := attention[0].Heads
	return fmt.Sprintf("hidden %d inner %d heads %d/%d of %d vocab %d layers %d",
		products[0].K, products[1].K, heads.Query, heads.KV, heads.Dim, products[2].N, m.Layers)
}

func TestAttentionOfRanks(t *testing.T) {
	arch, err := architecture.Parse([]byte(`{"model_type": "llama", "hidden_size": 512, "intermediate_size": 512, "num_attention_heads": ` +
		`8, "num_key_value_heads": 2, "vocab_size": 100}`))
	if err != nil {
		t.Fatal(err)
	}
	m := newModel("small", arch)
	for tp, want := range map[int]Target{
		1: {Name: "small:attention", Heads: kernels.Heads{Query: 8, KV: 2, Dim: 64}},
		2: {Name: "small:attention tp2", Heads: kernels.Heads{Query: 4, KV: 1, Dim: 64}},
		4: {Name: "small:attention tp4", Heads: kernels.Heads{Query: 2, KV: 1, Dim: 64}},
	} {
		if got, err := m.Attention(tp); err != nil || len(got) != 1 || got[0].Name != want.Name || got[0].Heads != want.Heads {
			t.Errorf("%d ranks: %+v, %v, want %+v", tp, got, err, want)
		}
	}
	for tp, want := range map[int]string{0: "expected 1 to", 3: "it has 8 query heads"} {
		if _, err := m.Attention(tp); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d ranks: %v, want %q", tp, err, want)
		}
	}
}
