package mistral_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

func openQuantized(t testing.TB, name string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := checkpoint.Open(filepath.Join("checkpoint", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// agrees compares a model's logits, as a prompt and token by token, with the float64 reference of its
// weights.
func agrees(t *testing.T, m *mistral.Model, c *checkpoint.Checkpoint, tokens []int32) {
	t.Helper()
	want, err := m.Reference(t.Context(), c, tokens, 0)
	if err != nil {
		t.Fatal(err)
	}
	bound, vocab := bounds[m.DType()], m.Config().Vocab
	whole := session(t, m, mistral.SessionOptions{Positions: len(tokens)})
	err = whole.All(t.Context(), tokens, func(first int, logits []float32) error {
		for i := range len(logits) / vocab {
			if d := distance(logits[i*vocab:(i+1)*vocab], want.Logits[first+i]); !(d <= bound) {
				t.Errorf("%v, prompt, token %d: off by %.2g of the logits' range", m.Weights(), first+i, d)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, unfused := range []bool{false, true} {
		steps := session(t, m, mistral.SessionOptions{Positions: len(tokens), Unfused: unfused})
		for i, token := range tokens {
			got, err := steps.Step(t.Context(), token)
			if err != nil {
				t.Fatal(err)
			}
			if d := distance(got, want.Logits[i]); !(d <= bound) {
				t.Fatalf("%v, unfused %v, step %d: off by %.2g of the logits' range", m.Weights(), unfused, i, d)
			}
		}
	}
}

// In every type that the device has quantized kernels for.
func TestRoundedWeights(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		f := openFixture(t, "mistral")
		ran := 0
		for _, format := range []string{"int4:32", "int4:32:zero", "int8:column", "int8:32:zero", "int4:column"} {
			q, err := kernels.ParseWeights(format)
			if err != nil {
				t.Fatal(err)
			}
			for _, dtype := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
				m, err := mistral.Load(t.Context(), d, f.Checkpoint, mistral.Options{DType: dtype, Weights: &q})
				var unsupported *kernels.Unsupported
				if errors.As(err, &unsupported) && dtype == kernels.FP32 {
					continue // not on GPUs
				}
				if err != nil {
					t.Fatalf("%s %s: %v", format, dtype, err)
				}
				if m.Weights() != q {
					t.Errorf("%s %s: held as %v", format, dtype, m.Weights())
				}
				if plain := m.Config().Parameters() * int64(dtype.Size()); m.Bytes() >= plain {
					t.Errorf("%s %s: %d bytes, plain ones are %d", format, dtype, m.Bytes(), plain)
				}
				agrees(t, m, f.Checkpoint, f.Prompt[:min(12, len(f.Prompt))])
				ran++
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		if ran == 0 {
			t.Error("nothing ran")
		}
	})
}

// Stored codes are kept if the kernel supports them; dequantized they must agree too.
func TestStoredIntegers(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		kept := 0
		for _, name := range []string{"awq", "gptq", "gptq-8bit", "gptq-v2", "packed", "packed-rows", "packed-zeros"} {
			c := openQuantized(t, name)
			tokens := mistral.RandomTokens(9, c.Config().Vocab, 1)
			for _, weights := range []*kernels.WeightFormat{nil, {}} {
				for _, dtype := range []kernels.DType{kernels.FP16, kernels.BF16, kernels.FP32} {
					m, err := mistral.Load(t.Context(), d, c, mistral.Options{DType: dtype, Weights: weights})
					if err != nil {
						t.Fatalf("%s %s: %v", name, dtype, err)
					}
					stored := c.Config().Quantization
					switch held := m.Weights(); {
					case weights != nil && held.Bits != 0:
						t.Errorf("%s %s: asked for plain weights, held as %v", name, dtype, held)
					case held.Bits != 0 && (held.Bits != stored.Bits || max(held.GroupK, 0) != stored.Group):
						t.Errorf("%s %s: stored as %+v, held as %v", name, dtype, stored, held)
					case held.Bits != 0:
						kept++
					}
					agrees(t, m, c, tokens)
					if err := m.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		}
		if kept == 0 {
			t.Error("no codes were kept")
		}
	})
}

func TestRefusedFormats(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		for _, c := range []struct {
			model  string
			format kernels.WeightFormat
			want   string
		}{
			{"plain", kernels.IntegerWeights(4, 48, false), "weights int4:48: qkv_proj: a group of 48 does not divide k 64"},
			{"gptq", kernels.IntegerWeights(8, 32, false), "weights int8:32: qkv_proj: the checkpoint has them"},
		} {
			open := openQuantized
			if c.model == "plain" {
				open = func(t testing.TB, _ string) *checkpoint.Checkpoint { return openFixture(t, "mistral").Checkpoint }
			}
			_, err := mistral.Load(t.Context(), d, open(t, c.model), mistral.Options{DType: kernels.FP16, Weights: &c.format})
			var refused *mistral.FormatError
			if !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%s as %v: %v, want %q", c.model, c.format, err, c.want)
			}
		}
	})
}

// With raw weights kept; kernels without quantized weights must refuse.
func TestQuantizedFamilies(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		f := openFixture(t, "mistral")
		q := kernels.IntegerWeights(4, 32, false)
		m, err := mistral.Load(t.Context(), d, f.Checkpoint, mistral.Options{DType: kernels.BF16, Weights: &q, KeepRaw: true})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		want, err := m.Reference(t.Context(), f.Checkpoint, f.Prompt, 0)
		if err != nil {
			t.Fatal(err)
		}
		var ran []string
		for _, g := range d.Kernels(kernels.GEMM) {
			as := kernels.Task{Subject: kernels.Linear(kernels.BF16, 64, 64), M: 1}
			as.Weights, _ = q.For(kernels.BF16, as.K)
			integers := g.Supports(as) == nil
			if err := m.Use(g.Name()); err != nil {
				var unsupported *kernels.Unsupported
				if !errors.As(err, &unsupported) {
					t.Errorf("%s: %v", g.Name(), err)
				}
				continue
			}
			if !integers {
				t.Errorf("%s took weights that it has no kernel for", g.Name())
			}
			s, err := m.NewSession(mistral.SessionOptions{Positions: len(f.Prompt)})
			if err != nil {
				t.Fatalf("%s: %v", g.Name(), err)
			}
			logits, err := s.Prefill(t.Context(), f.Prompt)
			s.Close()
			if err != nil {
				t.Fatalf("%s: %v", g.Name(), err)
			}
			ran = append(ran, g.Name())
			if d := distance(logits, want.Logits[len(want.Logits)-1]); !(d <= bounds[kernels.BF16]) {
				t.Errorf("%s: off by %.2g of the logits' range", g.Name(), d)
			}
			if err := m.Release(g.Name()); err != nil {
				t.Error(err)
			}
		}
		if !slices.Contains(ran, "auto") || len(ran) < 2 {
			t.Errorf("ran %v", ran)
		}
	})
}
