package mistral_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
)

// Logits must not depend on how the prompt is split.
func TestLogits(t *testing.T) {
	everyModel(t, mistral.Options{}, func(t *testing.T, f *fixture, m *mistral.Model) {
		for _, batch := range []int{0, 1, 7} {
			s := session(t, m, mistral.SessionOptions{Positions: len(f.Prompt), Batch: batch})
			vocab := m.Config().Vocab
			err := s.All(t.Context(), f.Prompt, func(first int, logits []float32) error {
				for i, p := range f.Positions {
					if p < first || p >= first+len(logits)/vocab {
						continue
					}
					row := logits[(p-first)*vocab : (p-first+1)*vocab]
					if d := distance(row, f.logits(t, m.DType(), i)); !(d <= bounds[m.DType()]) {
						t.Errorf("batches of %d, token %d: logits are off by %.2g of their range, expected at most %g", batch, p, d,
							bounds[m.DType()])
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// 64 greedy tokens in fp32, in one go and step by step, fused and not.
func TestGreedy(t *testing.T) {
	everyModel(t, mistral.Options{}, func(t *testing.T, f *fixture, m *mistral.Model) {
		if m.DType() != kernels.FP32 {
			t.Skip("of fp32 alone: in others the likeliest two may change places")
		}
		for _, unfused := range []bool{false, true} {
			s := session(t, m, mistral.SessionOptions{Positions: len(f.Prompt) + len(f.Greedy), Unfused: unfused})
			out, err := s.Generate(t.Context(), mistral.Generation{Prompt: f.Prompt, Tokens: len(f.Greedy)})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(out.Tokens, f.Greedy) {
				t.Errorf("unfused %v: generated %v, expected %v", unfused, out.Tokens, f.Greedy)
			}
			s.Reset()
			logits, err := s.Prefill(t.Context(), f.Prompt)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range f.Greedy {
				if got := mistral.Likeliest(logits); got != want {
					t.Fatalf("unfused %v, step %d: token %d, expected %d", unfused, i, got, want)
				}
				if i+1 == len(f.Greedy) {
					break
				}
				if logits, err = s.Step(t.Context(), want); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// Also past the end of the ring buffer.
func TestStepsAgreeWithPrompt(t *testing.T) {
	everyModel(t, mistral.Options{}, func(t *testing.T, f *fixture, m *mistral.Model) {
		tokens := f.Text
		whole := session(t, m, mistral.SessionOptions{Positions: len(tokens)})
		steps := session(t, m, mistral.SessionOptions{Positions: len(tokens), Batch: 8})
		vocab := m.Config().Vocab
		var want [][]float64
		err := whole.All(t.Context(), tokens, func(_ int, logits []float32) error {
			for i := range len(logits) / vocab {
				row := make([]float64, vocab)
				for j := range row {
					row[j] = float64(logits[i*vocab+j])
				}
				want = append(want, row)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, token := range tokens {
			got, err := steps.Step(t.Context(), token)
			if err != nil {
				t.Fatal(err)
			}
			// Both have rounding errors.
			if d := distance(got, want[i]); !(d <= 2*bounds[m.DType()]) {
				t.Fatalf("token %d: off by %.2g of the logits' range", i, d)
			}
		}
	})
}

// The text is longer than the window and the ring buffer.
func TestPerplexity(t *testing.T) {
	everyModel(t, mistral.Options{}, func(t *testing.T, f *fixture, m *mistral.Model) {
		for _, batch := range []int{0, 100} {
			s := session(t, m, mistral.SessionOptions{Positions: len(f.Text), Batch: batch})
			got, _, err := s.Perplexity(t.Context(), f.Text)
			if err != nil {
				t.Fatal(err)
			}
			allowed := map[kernels.DType]float64{kernels.FP32: 1e-4, kernels.FP16: 5e-3, kernels.BF16: 2e-2}[m.DType()]
			if want := f.Perplexity[m.DType()]; !(math.Abs(got/want-1) <= allowed) {
				t.Errorf("batches of %d: %.5f, expected %.5f within %g", batch, got, want, allowed)
			}
		}
	})
}

func TestFamilies(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		f := openFixture(t, "mistral")
		for _, dtype := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
			m, err := mistral.Load(t.Context(), d, f.Checkpoint, mistral.Options{DType: dtype, KeepRaw: true})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			ran := 0
			for _, g := range d.Kernels(kernels.GEMM) {
				if m.Use(g.Name()) != nil {
					continue // the kernel does not support the type
				}
				s, err := m.NewSession(mistral.SessionOptions{Positions: len(f.Prompt)})
				if err != nil {
					continue // nor the output projection with that many rows
				}
				logits, err := s.Prefill(t.Context(), f.Prompt)
				s.Close()
				if err != nil {
					t.Logf("%s %s: %v", g.Name(), dtype, err)
					continue
				}
				ran++
				last := len(f.Positions) - 1
				if f.Positions[last] != len(f.Prompt)-1 {
					t.Fatalf("the fixture's last position is %d", f.Positions[last])
				}
				if d := distance(logits, f.logits(t, dtype, last)); !(d <= bounds[dtype]) {
					t.Errorf("%s %s: logits are off by %.2g of their range", g.Name(), dtype, d)
				}
			}
			if ran == 0 {
				t.Errorf("%s: every kernel refuses the model", dtype)
			}
		}
	})
}

// The float64 reference must be closer to transformers' fp32 than any bound.
func TestReference(t *testing.T) {
	for _, name := range fixtures {
		f := openFixture(t, name)
		logits, err := mistral.Reference(t.Context(), f.Checkpoint, f.Prompt, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range f.Positions {
			got := make([]float32, len(logits.Logits[p]))
			for j, v := range logits.Logits[p] {
				got[j] = float32(v)
			}
			if d := distance(got, f.logits(t, kernels.FP32, i)); !(d <= 1e-5) {
				t.Errorf("%s, token %d: off by %.2g of the logits' range", name, p, d)
			}
		}
	}
}
