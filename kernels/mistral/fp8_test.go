package mistral_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// fp8Models have fp8 weights with scales of blocks and of outputs, and normalized heads: see scripts/make_fp8_fixtures.py.
var fp8Models = []string{"qwen3-fp8", "qwen3-fp8-channel"}

func TestFP8Reference(t *testing.T) {
	for _, name := range fp8Models {
		f := openMixture(t, name)
		got, err := mistral.Reference(t.Context(), f.Checkpoint, f.prompt, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range f.want {
			row := make([]float32, len(want))
			for j, v := range got.Logits[i] {
				row[j] = float32(v)
			}
			// transformers normalizes in fp32.
			if d := distance(row, want); !(d <= 2e-6) {
				t.Errorf("%s, token %d: float64 logits are off by %.2g of their range", name, i, d)
			}
		}
	}
}

func TestFP8Logits(t *testing.T) {
	for _, threads := range []int{1, 2} {
		d, err := cpu.Open(threads)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for _, name := range fp8Models {
			for _, dtype := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
				t.Run(name+"/"+string(dtype), func(t *testing.T) {
					f := openMixture(t, name)
					m := loadMixture(t, d, f, mistral.Options{DType: dtype})
					for _, batch := range []int{0, 1, 5} {
						for i, row := range promptLogits(t, m, f.prompt, batch) {
							if d := distance(row, f.want[i]); !(d <= bounds[dtype]) {
								t.Errorf("batches of %d, token %d: logits are off by %.2g of their range, expected at most %g", batch, i, d,
									bounds[dtype])
							}
						}
					}
				})
			}
		}
	}
}

// Integers are not what an fp8 checkpoint has.
func TestFP8AsIntegers(t *testing.T) {
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f := openMixture(t, "qwen3-fp8")
	want := kernels.IntegerWeights(8, 0, false)
	m := loadMixture(t, d, f, mistral.Options{DType: kernels.BF16, Weights: &want})
	if got := m.Weights(); got != want {
		t.Errorf("loaded as %v, expected %v", got, want)
	}
}

func TestBadFP8(t *testing.T) {
	for name, tt := range map[string]struct {
		model  string
		change func(map[string]any)
		want   string
	}{
		"static activations": {"qwen3-fp8", func(q map[string]any) { q["activation_scheme"] = "static" },
			`activation_scheme is "static": expected dynamic`},
		"e5m2":         {"qwen3-fp8", func(q map[string]any) { q["fmt"] = "e5m2" }, `fmt is "e5m2"`},
		"no blocks":    {"qwen3-fp8", func(q map[string]any) { delete(q, "weight_block_size") }, "weight_block_size is missing"},
		"an odd block": {"qwen3-fp8", func(q map[string]any) { q["weight_block_size"] = []int{128} }, "rows and columns"},
		"another block": {"qwen3-fp8", func(q map[string]any) { q["weight_block_size"] = []int{64, 64} },
			`weight_scale_inv": shape [2 2], expected [3 3]`},
		"unknown field": {"qwen3-fp8", func(q map[string]any) { q["zeros"] = 1 }, "unknown field"},
		"a scale of all": {"qwen3-fp8-channel", weights(func(w map[string]any) { w["strategy"] = "tensor" }),
			"expected channel or block"},
		"4 bits": {"qwen3-fp8-channel", weights(func(w map[string]any) { w["num_bits"] = 4 }), "num_bits is 4: expected 8"},
		"static inputs": {"qwen3-fp8-channel", inputs(func(a map[string]any) { a["dynamic"] = false }),
			"dynamic is false: expected true"},
		"missing scales": {"qwen3-fp8-channel", weights(func(w map[string]any) {
			w["strategy"], w["block_structure"] = "block", []int{128, 128}
		}),
			`weight_scale": shape [192 1], expected [2 2]`},
		"integers instead": {"qwen3-fp8-channel", func(q map[string]any) { q["format"] = "pack-quantized" }, "input_activations is"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", tt.model))); err != nil {
			t.Fatal(err)
		}
		path, c := filepath.Join(dir, "config.json"), map[string]any{}
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &c)
		}
		if err != nil {
			t.Fatal(err)
		}
		tt.change(c["quantization_config"].(map[string]any))
		if text, err = json.Marshal(c); err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		opened, err := checkpoint.Open(dir)
		if err == nil {
			opened.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, expected %q", name, err, tt.want)
		}
	}
}

func group(part string, change func(map[string]any)) func(map[string]any) {
	return func(q map[string]any) {
		g := q["config_groups"].(map[string]any)["group_0"].(map[string]any)
		change(g[part].(map[string]any))
	}
}

func weights(change func(map[string]any)) func(map[string]any) { return group("weights", change) }

func inputs(change func(map[string]any)) func(map[string]any) {
	return group("input_activations", change)
}
