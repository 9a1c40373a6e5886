package checkpoint

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// makeModel runs scripts/make_model.py if its requirements are installed.
func makeModel(t *testing.T, args ...string) string {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	if exec.Command(python, "-c", "import numpy").Run() != nil {
		t.Skip("python3 has no numpy")
	}
	dir := t.TempDir()
	script := filepath.Join("..", "..", "..", "scripts", "make_model.py")
	if out, err := exec.Command(python, append([]string{script, dir}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

func TestMadeModels(t *testing.T) {
	for _, test := range []struct {
		args  string
		files int
		check func(Config) bool
	}{
		{"--preset tiny", 1, func(c Config) bool { return c.Window == 1024 && c.DType == kernels.FP16 && !c.Tied }},
		{"--preset tiny --dtype bf16 --window 0 --shard-gb 0.002", 4,
			func(c Config) bool { return c.Window == 0 && c.DType == kernels.BF16 }},
		{"--preset llama3.1-8b --hidden 128 --inner 96 --layers 2 --heads 6 --kv-heads 2 --head-dim 64 --vocab 4000 --tied --dtype fp32", 1,
			func(c Config) bool {
				return c.Rope != nil && c.Rope.Factor == 8 && c.Tied && c.DType == kernels.FP32 &&
					c.Heads == kernels.Heads{Query: 6, KV: 2, Dim: 64}
			}},
		{"--preset mixtral-8x7b --hidden 128 --inner 64 --layers 2 --heads 4 --kv-heads 2 --head-dim 32 --vocab 700 --experts 5 --top 3", 1,
			func(c Config) bool { return c.ModelType == "mixtral" && c.Experts == 5 && c.TopK == 3 && c.Window == 0 }},
	} {
		dir := makeModel(t, strings.Fields(test.args)...)
		c, err := Open(dir)
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
			continue
		}
		config := c.Config()
		if !test.check(config) || len(c.files) != test.files {
			t.Errorf("%s: %d files, %+v", test.args, len(c.files), config)
		}
		for _, w := range config.Weights() {
			tensor, err := c.Tensor(w.Name, w.Shape...)
			if err != nil {
				t.Fatal(err)
			}
			mean, deviation := moments(t, tensor)
			inputs := w.Shape[len(w.Shape)-1]
			switch {
			case strings.Contains(w.Name, "norm"):
				if math.Abs(mean-1) > 0.05 || deviation > 0.1 {
					t.Errorf("%s: %s is %.3f ± %.3f", test.args, w.Name, mean, deviation)
				}
			case strings.HasSuffix(w.Name, "_proj.weight"):
				if most := 1 / math.Sqrt(float64(inputs)); math.Abs(mean) > 0.05*most || deviation > 1.05*most || deviation < 0.2*most {
					t.Errorf("%s: %s is %.4f ± %.4f with %d inputs", test.args, w.Name, mean, deviation, inputs)
				}
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		var tokenizer struct {
			Model struct{ Vocab map[string]int }
		}
		data, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
		if err == nil {
			err = json.Unmarshal(data, &tokenizer)
		}
		if err != nil || len(tokenizer.Model.Vocab) != config.Vocab {
			t.Errorf("%s: a tokenizer of %d tokens, expected %d: %v", test.args, len(tokenizer.Model.Vocab), config.Vocab, err)
		}
	}
}

func moments(t *testing.T, x Tensor) (mean, deviation float64) {
	values := make([]float64, len(x.Data)/x.DType.Size())
	if err := kernels.Decode(x.DType, x.Data, values); err != nil {
		t.Fatal(err)
	}
	var sum, squares float64
	for _, v := range values {
		sum += v
		squares += v * v
	}
	mean = sum / float64(len(values))
	return mean, math.Sqrt(squares/float64(len(values)) - mean*mean)
}
