package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gemmaudit/gemmaudit/kernels"
)

const tinyConfig = `{"model_type": "mistral", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
	"num_key_value_heads": 1, "vocab_size": 10, "max_position_embeddings": 64, "sliding_window": null}`

type folder struct {
	files  map[string][]byte
	shards map[string]map[string]stored // by file
	index  map[string]string            // nil for a single file
}

func tinyFolder(t *testing.T, names ...string) *folder { return folderOf(t, tinyConfig, names...) }

func folderOf(t *testing.T, config string, names ...string) *folder {
	c, err := parseConfig("config.json", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	f := &folder{files: map[string][]byte{"config.json": []byte(config)}, shards: map[string]map[string]stored{}}
	if len(names) > 1 {
		f.index = map[string]string{}
	}
	for i, w := range c.Weights() {
		n := 1
		for _, d := range w.Shape {
			n *= d
		}
		shard := names[i%len(names)]
		if f.shards[shard] == nil {
			f.shards[shard] = map[string]stored{}
		}
		f.shards[shard][w.Name] = stored{"F16", w.Shape, bytes.Repeat([]byte{byte(i), 0x3c}, n)}
		if f.index != nil {
			f.index[w.Name] = shard
		}
	}
	return f
}

func (f *folder) write(t *testing.T) string {
	dir := t.TempDir()
	put := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for shard, tensors := range f.shards {
		put(shard, encode(tensors))
	}
	if f.index != nil {
		text, err := json.Marshal(map[string]any{"metadata": map[string]int{"total_size": 1}, "weight_map": f.index})
		if err != nil {
			t.Fatal(err)
		}
		put(indexFile, text)
	}
	for name, data := range f.files {
		put(name, data)
	}
	return dir
}

func TestOpen(t *testing.T) {
	for name, shards := range map[string][]string{
		"one file": {singleFile},
		"shards":   {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"},
	} {
		t.Run(name, func(t *testing.T) {
			f := tinyFolder(t, shards...)
			c, err := Open(f.write(t))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if got := c.Config(); got.Hidden != 8 || got.DType != kernels.FP16 {
				t.Errorf("config %+v", got)
			}
			for _, tensors := range f.shards {
				for name, s := range tensors {
					got, err := c.Tensor(name, s.shape...)
					want := Tensor{Name: name, DType: kernels.FP16, Shape: s.shape, Data: s.data}
					if diff := cmp.Diff(want, got,
						cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "path" }, cmp.Ignore())); err != nil || diff != "" {
						t.Fatal(err, diff)
					}
				}
			}
			for range 2 {
				if err := c.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.Tensor(lastNorm, 8); err == nil || !strings.Contains(err.Error(), "after the checkpoint was") {
				t.Errorf("a tensor of a closed checkpoint: %v", err)
			}
		})
	}
}

func TestOpenTakesTokensOfGeneration(t *testing.T) {
	for text, want := range map[string][]int{
		`{"eos_token_id": [3, 4], "bos_token_id": 7, "temperature": 0.6, "do_sample": true}`: {7, 3, 4},
		`{"eos_token_id": null}`: {1, 2},
		`{"top_k": 3}`:           {1, 2},
	} {
		f := tinyFolder(t, singleFile)
		f.files[generationFile] = []byte(text)
		c, err := Open(f.write(t))
		if err != nil {
			t.Fatal(err)
		}
		if got := append([]int{c.Config().BOS}, c.Config().EOS...); !slices.Equal(got, want) {
			t.Errorf("%s: first and last tokens %v, expected %v", text, got, want)
		}
		c.Close()
	}
}

func TestOpenAcceptsWhatFollowsFromTheRest(t *testing.T) {
	f := tinyFolder(t, singleFile)
	f.files["config.json"] = []byte(strings.TrimSuffix(tinyConfig, "}") + `, "tie_word_embeddings": true}`)
	f.shards[singleFile]["model.layers.0.self_attn.rotary_emb.inv_freq"] = stored{"F32", []int{2}, make([]byte, 8)}
	for range 2 {
		c, err := Open(f.write(t))
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		delete(f.shards[singleFile], output)
	}
}

const tinyExperts = `{"model_type": "mixtral", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
	"num_key_value_heads": 1, "vocab_size": 10, "max_position_embeddings": 64, "num_local_experts": 3}`

func TestOpenRefusesExperts(t *testing.T) {
	const router = "model.layers.1.block_sparse_moe.gate.weight"
	const w1, w2 = "model.layers.1.block_sparse_moe.experts.2.w1.weight", "model.layers.0.block_sparse_moe.experts.0.w2.weight"
	const fourth = "model.layers.0.block_sparse_moe.experts.3.w1.weight"
	for _, test := range []struct {
		name  string
		spoil func(map[string]stored)
		want  string
	}{
		{"nothing wrong", func(map[string]stored) {}, ""},
		{"a missing router", func(of map[string]stored) { delete(of, router) }, `tensor "` + router + `": missing, expected shape [3 8]`},
		{"a missing expert", func(of map[string]stored) { delete(of, w1) }, `tensor "` + w1 + `": missing, expected shape [12 8]`},
		{"a wide router", func(of map[string]stored) { of[router] = stored{"F16", []int{4, 8}, make([]byte, 64)} },
			`tensor "` + router + `": shape [4 8], expected [3 8]`},
		{"a transposed expert", func(of map[string]stored) { of[w2] = stored{"F16", []int{12, 8}, make([]byte, 192)} },
			`tensor "` + w2 + `": shape [12 8], expected [8 12]`},
		{"an expert too many", func(of map[string]stored) { of[fourth] = stored{"F16", []int{12, 8}, make([]byte, 192)} },
			`tensor "` + fourth + `": a mixtral model of`},
		{"a dense gated unit", func(of map[string]stored) {
			of["model.layers.0.mlp.up_proj.weight"] = stored{"F16", []int{12, 8}, make([]byte, 192)}
		}, `tensor "model.layers.0.mlp.up_proj.weight": a mixtral model of`},
	} {
		f := folderOf(t, tinyExperts, singleFile)
		test.spoil(f.shards[singleFile])
		c, err := Open(f.write(t))
		switch {
		case err == nil:
			c.Close()
			fallthrough
		case test.want == "":
			if err != nil || test.want != "" {
				t.Errorf("%s: %v, expected %q", test.name, err, test.want)
			}
		default:
			var typed *Error
			if !errors.As(err, &typed) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, expected %q", test.name, err, test.want)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	const a, b = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
	const norm0, up1 = "model.layers.0.input_layernorm.weight", "model.layers.1.mlp.up_proj.weight"
	cut := func(data []byte) []byte { return data[:len(data)-1] }
	for _, test := range []struct {
		name   string
		shards []string
		spoil  func(*folder)
		want   string
	}{
		{"no config", []string{singleFile}, func(f *folder) { delete(f.files, "config.json") }, "config.json: can't be read: no such file"},
		{"a bad config", []string{singleFile}, func(f *folder) { f.files["config.json"] = []byte("{") }, "config.json: not a JSON object"},
		{"a huge config", []string{singleFile}, func(f *folder) { f.files["config.json"] = make([]byte, maxJSON+1) },
			"config.json: 16777217 bytes long, expected"},
		{"bad generation", []string{singleFile}, func(f *folder) { f.files[generationFile] = []byte(`{"eos_token_id": 10}`) },
			"generation_config.json: eos_token_id is 10"},
		{"no weights", []string{singleFile}, func(f *folder) { clear(f.shards) },
			"neither model.safetensors nor model.safetensors.index.json is there"},
		{"a truncated file", []string{singleFile}, func(f *folder) { f.files[singleFile] = cut(encode(f.shards[singleFile])) },
			"truncated"},
		{"a missing tensor", []string{singleFile}, func(f *folder) { delete(f.shards[singleFile], up1) },
			`tensor "` + up1 + `": missing, expected shape [12 8]`},
		{"a wrong shape", []string{singleFile},
			func(f *folder) { f.shards[singleFile][up1] = stored{"F16", []int{8, 12}, make([]byte, 192)} },
			`model.safetensors: tensor "` + up1 + `": shape [8 12], expected [12 8]`},
		{"a wrong type", []string{singleFile}, func(f *folder) { f.shards[singleFile][norm0] = stored{"I8", []int{8}, make([]byte, 8)} },
			`tensor "` + norm0 + `": of type "I8", expected F32, F16`},
		{"an unknown type", []string{singleFile}, func(f *folder) { f.shards[singleFile][norm0] = stored{"Q3", []int{8}, make([]byte, 3)} },
			`of type "Q3"`},
		{"a tensor too many", []string{singleFile}, func(f *folder) {
			f.shards[singleFile]["model.layers.0.self_attn.q_proj.bias"] = stored{"F16", []int{8}, make([]byte, 16)}
		}, `tensor "model.layers.0.self_attn.q_proj.bias": a mistral model of this config`},
		{"a layer too many", []string{singleFile}, func(f *folder) {
			f.shards[singleFile]["model.layers.2.mlp.up_proj.weight"] = stored{"F16", []int{12, 8}, make([]byte, 192)}
		}, `tensor "model.layers.2.mlp.up_proj.weight": a mistral model of this config`},
		{"no output projection", []string{singleFile}, func(f *folder) { delete(f.shards[singleFile], output) },
			`tensor "lm_head.weight": missing`},
		{"no index", []string{a, b}, func(f *folder) { f.index = nil }, "neither model.safetensors nor"},
		{"a bad index", []string{a, b}, func(f *folder) { f.files[indexFile] = []byte(`{"weight_map": {"a": 3}}`) },
			"index.json: not an index"},
		{"an empty index", []string{a, b}, func(f *folder) { f.files[indexFile] = []byte(`{}`) }, "weight_map is missing"},
		{"a shard elsewhere", []string{a, b}, func(f *folder) { f.index[up1] = "../" + a }, `shard "../` + a + `" is not the name`},
		{"a shard without a name", []string{a, b}, func(f *folder) { f.index[up1] = "" }, `shard "" is not the name`},
		{"a missing shard", []string{a, b}, func(f *folder) { delete(f.shards, b) }, b + ": can't be opened: no such file"},
		{"a truncated shard", []string{a, b}, func(f *folder) { f.files[b] = cut(encode(f.shards[b])) }, b + ": tensor "},
		{"an empty shard", []string{a, b}, func(f *folder) { f.files[b] = nil }, b + ": 0 bytes long"},
		{"the wrong shard", []string{a, b}, func(f *folder) { f.index[embedding] = b },
			a + `: tensor "` + embedding + `": in the wrong shard: ` + indexFile + " says " + b},
		{"a tensor in no shard", []string{a, b}, func(f *folder) { delete(f.shards[a], embedding) },
			a + `: tensor "` + embedding + `": not there`},
		{"a tensor in two shards", []string{a, b}, func(f *folder) { f.shards[b][embedding] = f.shards[a][embedding] },
			b + `: tensor "` + embedding + `": also in ` + a},
		{"a tensor that is not listed", []string{a, b}, func(f *folder) { delete(f.index, embedding) },
			`tensor "` + embedding + `": ` + indexFile + " does not list it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := tinyFolder(t, test.shards...)
			test.spoil(f)
			dir := f.write(t)
			_, err := Open(dir)
			var typed *Error
			if !errors.As(err, &typed) || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), dir) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

func TestOpenHints(t *testing.T) {
	for name, want := range map[string]string{"consolidated.safetensors": "consolidated.safetensors is in the format of",
		"pytorch_model.bin": "pytorch_model.bin is in PyTorch's", "notes.txt": ""} {
		f := tinyFolder(t, singleFile)
		clear(f.shards)
		f.files[name] = []byte("x")
		_, err := Open(f.write(t))
		var typed *Error
		if !errors.As(err, &typed) || !strings.HasPrefix(typed.HintText(), want) || (want == "") != (typed.HintText() == "") {
			t.Errorf("%s: hint %q, expected %q", name, typed.HintText(), want)
		}
	}
	dir := tinyFolder(t, singleFile).write(t)
	if _, err := Open(filepath.Join(dir, "config.json")); err == nil || !strings.Contains(err.Error(), "not a folder") {
		t.Errorf("a file was opened: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent folder: %v", err)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"metadata": {"total_size": 3}, "weight_map": {"a": "model-1.safetensors", "b": "../x"}}`))
	f.Add([]byte(`{"weight_map": {"a": "..", "b": "C:\\x", "c": "a/b"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		shards, err := parseIndex("index", data)
		if err != nil {
			return
		}
		for shard := range maps.Values(shards) {
			if filepath.Dir(filepath.Join("dir", shard)) != "dir" {
				t.Fatalf("shard %q is not in the folder", shard)
			}
		}
	})
}

// The models that transformers read for the fixtures of package mistral.
func TestOpenFixtures(t *testing.T) {
	for name, want := range map[string]struct {
		dtype  kernels.DType
		files  int
		window int
		heads  kernels.Heads
	}{
		"mistral-window": {kernels.FP16, 2, 32, kernels.Heads{Query: 4, KV: 2, Dim: 64}},
		"mistral":        {kernels.BF16, 2, 0, kernels.Heads{Query: 2, KV: 1, Dim: 128}},
		"llama-2":        {kernels.FP32, 1, 0, kernels.Heads{Query: 2, KV: 2, Dim: 64}},
		"llama-3.1":      {kernels.BF16, 1, 0, kernels.Heads{Query: 3, KV: 1, Dim: 64}},
	} {
		c, err := Open(filepath.Join("..", "testdata", name))
		if err != nil {
			t.Error(err)
			continue
		}
		config := c.Config()
		if config.DType != want.dtype || len(c.files) != want.files || config.Window != want.window || config.Heads != want.heads {
			t.Errorf("%s: %d files of %+v, expected %+v", name, len(c.files), config, want)
		}
		for _, w := range config.Weights() {
			tensor, err := c.Tensor(w.Name, w.Shape...)
			if err != nil || tensor.DType != want.dtype {
				t.Errorf("%s: %s of %s: %v", name, w.Name, tensor.DType, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
