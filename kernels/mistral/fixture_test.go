package mistral_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/cuda"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// fixtures are the models of testdata, see scripts/make_model_fixtures.py.
var fixtures = []string{"mistral-window", "mistral", "llama-2", "llama-3.1"}

type fixture struct {
	*checkpoint.Checkpoint
	Prompt     []int32
	Positions  []int
	Logits     map[kernels.DType][]byte
	Greedy     []int32
	Text       []int32
	Perplexity map[kernels.DType]float64
}

func openFixture(t testing.TB, name string) *fixture {
	t.Helper()
	dir := filepath.Join("testdata", name)
	f := &fixture{}
	data, err := os.ReadFile(filepath.Join(dir, "reference.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, f); err != nil {
		t.Fatal(err)
	}
	if f.Checkpoint, err = checkpoint.Open(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func (f *fixture) logits(t testing.TB, d kernels.DType, i int) []float64 {
	t.Helper()
	vocab := f.Config().Vocab
	row := vocab * d.Size()
	out := make([]float64, vocab)
	if err := kernels.Decode(d, f.Logits[d][i*row:(i+1)*row], out); err != nil {
		t.Fatal(err)
	}
	return out
}

// bounds are relative to the range of transformers' logits.
var bounds = map[kernels.DType]float64{kernels.FP32: 1e-3, kernels.FP16: 2e-2, kernels.BF16: 2e-2}

// distance returns the largest difference of two rows of logits divided by the range of the second.
func distance(got []float32, want []float64) float64 {
	low, high, worst := math.Inf(1), math.Inf(-1), 0.
	for i, w := range want {
		low, high = math.Min(low, w), math.Max(high, w)
		if d := math.Abs(float64(got[i]) - w); !(d <= worst) {
			worst = d
		}
	}
	return worst / (high - low)
}

// everyDevice runs a test on the CPU with one and two threads, and on every GPU.
func everyDevice(t *testing.T, run func(t *testing.T, d kernels.Device)) {
	for _, threads := range []int{1, 2} {
		d, err := cpu.Open(threads)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(d.Spec().ID+map[int]string{1: "-1", 2: "-2"}[threads], func(t *testing.T) { run(t, d) })
		d.Close()
	}
	gpus, _ := cuda.Provider{}.Open()
	for _, d := range gpus {
		t.Run(d.Spec().ID, func(t *testing.T) { run(t, d) })
		d.Close()
	}
}

func everyModel(t *testing.T, o mistral.Options, run func(t *testing.T, f *fixture, m *mistral.Model)) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		for _, name := range fixtures {
			for _, dtype := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
				t.Run(name+"/"+string(dtype), func(t *testing.T) {
					f := openFixture(t, name)
					with := o
					with.DType = dtype
					m, err := mistral.Load(t.Context(), d, f.Checkpoint, with)
					if err != nil {
						t.Fatal(err)
					}
					defer func() {
						if err := m.Close(); err != nil {
							t.Error(err)
						}
					}()
					run(t, f, m)
				})
			}
		}
	})
}

func session(t testing.TB, m *mistral.Model, o mistral.SessionOptions) *mistral.Session {
	t.Helper()
	s, err := m.NewSession(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
