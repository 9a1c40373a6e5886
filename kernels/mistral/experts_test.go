package mistral_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
)

// Prompts in one batch and in several, and token by token.
func TestExpertLogits(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		for _, name := range mixtures {
			f := openMixture(t, name)
			for _, dtype := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
				t.Run(name+"/"+string(dtype), func(t *testing.T) {
					m := loadMixture(t, d, f, mistral.Options{DType: dtype})
					bound := bounds[dtype]
					if dtype == kernels.BF16 && m.Weights().Bits > 0 && d.Spec().Kind != kernels.CPU {
						bound *= 1.5 // scales stored as fp16 are rounded to bf16
					}
					check := func(how string, i int, got []float32) {
						if off := distance(got, f.want[i]); !(off <= bound) {
							t.Errorf("%s, token %d: logits are off by %.2g of their range, expected at most %g", how, i, off, bound)
						}
					}
					for _, batch := range []int{0, 1, 5} {
						for i, row := range promptLogits(t, m, f.prompt, batch) {
							check(fmt.Sprintf("batches of %d", batch), i, row)
						}
					}
					for _, unfused := range []bool{false, true} {
						s := session(t, m, mistral.SessionOptions{Positions: len(f.prompt), Unfused: unfused})
						for i, token := range f.prompt {
							got, err := s.Step(t.Context(), token)
							if err != nil {
								t.Fatal(err)
							}
							check(fmt.Sprintf("step by step, fused %v", s.Fused()), i, got)
						}
					}
				})
			}
		}
	})
}

// Several tokens decoded in one call must be those of single steps.
func TestExpertsDecode(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		f := openMixture(t, "mixtral-8x2-window")
		m := loadMixture(t, d, f, mistral.Options{DType: kernels.FP32})
		const n = 12
		var steps []int32
		s := session(t, m, mistral.SessionOptions{Positions: len(f.prompt) + n})
		logits, err := s.Prefill(t.Context(), f.prompt)
		for range n + 1 {
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, mistral.Likeliest(logits))
			if len(steps) <= n {
				logits, err = s.Step(t.Context(), steps[len(steps)-1])
			}
		}
		s.Reset()
		if _, err := s.Prefill(t.Context(), f.prompt); err != nil {
			t.Fatal(err)
		}
		got, span, err := s.Decode(t.Context(), steps[0], n)
		if err != nil || !slices.Equal(got, steps[1:]) || !(span.Seconds > 0) {
			t.Errorf("decoded %v in %g s, expected %v: %v", got, span.Seconds, steps[1:], err)
		}
		out, err := func() (mistral.Generated, error) {
			s.Reset()
			return s.Generate(t.Context(), mistral.Generation{Prompt: f.prompt, Tokens: n})
		}()
		if err != nil || !slices.Equal(out.Tokens, steps[:n]) {
			t.Errorf("generated %v, expected %v: %v", out.Tokens, steps[:n], err)
		}
	})
}

func TestExpertReference(t *testing.T) {
	for _, name := range mixtures {
		f := openMixture(t, name)
		logits, err := mistral.Reference(t.Context(), f.Checkpoint, f.prompt, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range f.want {
			off, low, high := 0., slices.Min(want), slices.Max(want)
			for j, v := range logits.Logits[i] {
				off = max(off, math.Abs(v-want[j])/(high-low))
			}
			// transformers normalizes, rotates and routes in fp32 even in float64 models.
			if !(off <= 5e-6) {
				t.Errorf("%s, token %d: off by %.2g of the logits' range", name, i, off)
			}
		}
	}
}

// Among many choices some are so narrow that rounding changes them. They must not count as errors of a kernel.
func TestRoundedChoices(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		f := openMixture(t, "mixtral-16x4")
		tokens := mistral.RandomTokens(150, f.Config().Vocab, 1)
		expected, err := mistral.Reference(t.Context(), f.Checkpoint, tokens, 0)
		if err != nil {
			t.Fatal(err)
		}
		m := loadMixture(t, d, f, mistral.Options{DType: kernels.BF16})
		for _, c := range []struct {
			router [][][]float64
			passed bool
		}{{expected.Router, true}, {nil, false}} {
			s := session(t, m, mistral.SessionOptions{Positions: len(tokens), Batch: 40})
			want := &mistral.Expected{Logits: expected.Logits, Router: c.router}
			found, err := s.Compare(t.Context(), tokens, want, mistral.LogitBound(kernels.BF16))
			if err != nil {
				t.Fatal(err)
			}
			choices := len(tokens) * f.Config().Layers
			few := found.Rounded > 0 && found.Rounded <= choices/10
			if found.Passed != c.passed || c.router != nil && (found.Choices != choices || !few) {
				t.Errorf("router known %t: %+v", c.router != nil, found)
			}
		}
	})
}

// Every kernel of the device, with raw weights kept.
func TestExpertKernels(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		for _, name := range []string{"mixtral-6x3", "mixtral-8x2-int4"} {
			f := openMixture(t, name)
			m := loadMixture(t, d, f, mistral.Options{DType: kernels.FP16, KeepRaw: true})
			ran := 0
			for _, g := range d.Kernels(kernels.GEMM) {
				if m.Use(g.Name()) != nil {
					continue
				}
				s, err := m.NewSession(mistral.SessionOptions{Positions: len(f.prompt)})
				var unsupported *kernels.Unsupported
				if errors.As(err, &unsupported) {
					continue
				} else if err != nil {
					t.Fatalf("%s, %s: %v", name, g.Name(), err)
				}
				found, err := s.Compare(t.Context(), f.prompt, &mistral.Expected{Logits: f.want}, mistral.LogitBound(kernels.FP16))
				if err != nil || !found.Passed {
					t.Errorf("%s, %s: %+v, %v", name, g.Name(), found, err)
				}
				ran++
				if err := errors.Join(s.Close(), m.Release(g.Name())); err != nil {
					t.Error(err)
				}
			}
			if ran < 2 {
				t.Errorf("%s: %d kernels ran", name, ran)
			}
		}
	})
}

// Stored codes are kept, and plain weights can be rounded while loading; a router never is.
func TestExpertIntegers(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		f := openMixture(t, "mixtral-8x2-int4")
		m := loadMixture(t, d, f, mistral.Options{DType: kernels.FP16})
		if w := m.Weights(); w.Bits != 4 || w.GroupK != 32 {
			t.Errorf("stored codes are held as %v", w)
		}
		agrees(t, m, f.Checkpoint, f.prompt)
		f = openMixture(t, "mixtral-16x4")
		for _, format := range []string{"int4:column", "int8:column:zero"} {
			q, err := kernels.ParseWeights(format)
			if err != nil {
				t.Fatal(err)
			}
			m := loadMixture(t, d, f, mistral.Options{DType: kernels.FP16, Weights: &q})
			if m.Weights() != q {
				t.Errorf("%s: held as %v", format, m.Weights())
			}
			agrees(t, m, f.Checkpoint, f.prompt[:6])
		}
	})
}

// The fixtures must show checkpoints read wrongly.
func TestExpertTensorsMatter(t *testing.T) {
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	swap := func(a, b string) func(string) string {
		return func(name string) string {
			if left, ok := bytes.CutSuffix([]byte(name), []byte(a)); ok {
				return string(left) + b
			}
			if left, ok := bytes.CutSuffix([]byte(name), []byte(b)); ok {
				return string(left) + a
			}
			return name
		}
	}
	expert := func(name string) string {
		for _, w := range []string{"w1", "w2", "w3"} {
			name = swap("experts.0."+w+".weight", "experts.1."+w+".weight")(name)
		}
		return name
	}
	for _, name := range []string{"mixtral-4x1", "mixtral-4x4", "mixtral-6x3"} {
		for fault, rename := range map[string]func(string) string{"none": nil, "w1 and w3 swapped": swap("w1.weight", "w3.weight"),
			"experts swapped": expert} {
			f := openMixtureIn(t, name, changed(t, name, rename, nil))
			m := loadMixture(t, d, f, mistral.Options{DType: kernels.BF16})
			worst := 0.
			for i, row := range promptLogits(t, m, f.prompt, 0) {
				worst = max(worst, distance(row, f.want[i]))
			}
			if (worst > bounds[kernels.BF16]) != (fault != "none") {
				t.Errorf("%s, %s: off by %.2g of the logits' range, the bound is %g", name, fault, worst, bounds[kernels.BF16])
			}
		}
	}
}

// A NaN in an expert must reach the logits if and only if a token goes through it.
func TestOnlyChosenExpertsAreRead(t *testing.T) {
	const name = "mixtral-16x2" // of one layer
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		for _, tokens := range []int{1, 3} {
			read := 0
			var clean []float32
			for expert := -1; expert < 16; expert++ {
				dir := changed(t, name, nil, func(tensor string, data []byte) {
					for _, w := range []string{"w1", "w2", "w3"} {
						if tensor == fmt.Sprintf("model.layers.0.block_sparse_moe.experts.%d.%s.weight", expert, w) {
							copy(data, bytes.Repeat([]byte{0xff}, len(data)))
						}
					}
				})
				f := openMixtureIn(t, name, dir)
				m := loadMixture(t, d, f, mistral.Options{DType: kernels.BF16})
				s := session(t, m, mistral.SessionOptions{Positions: tokens})
				var got []float32
				var err error
				if tokens == 1 {
					got, err = s.Step(t.Context(), f.prompt[0])
				} else {
					logits := promptLogits(t, m, f.prompt[:tokens], 0)
					got = slices.Concat(logits...)
				}
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case expert < 0:
					clean = got
				case slices.ContainsFunc(got, func(x float32) bool { return x != x }):
					read++
				case !slices.Equal(got, clean):
					t.Errorf("%d tokens: other logits with NaN in expert %d", tokens, expert)
				}
			}
			if read < 2 || read > 2*tokens {
				t.Errorf("%d tokens: %d experts were read, expected 2 per token", tokens, read)
			}
		}
	})
}

// Bytes count the experts that tokens go through.
func TestExpertBytes(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		f := openMixture(t, "mixtral-16x4")
		m := loadMixture(t, d, f, mistral.Options{DType: kernels.FP16})
		c := m.Config()
		expert := float64(2 * 3 * c.Hidden * c.Inner)
		s := session(t, m, mistral.SessionOptions{Positions: 64})
		norms := int64(2*c.Layers+1) * int64(c.Hidden)
		idle := int64(expert) * int64(c.Layers*(c.Experts-c.TopK))
		key := int64(2 * 2 * c.Layers * c.Heads.KV * c.Heads.Dim)
		if got, want := s.TokenBytes(10)-10*key, 2*(c.Parameters()-norms-int64(c.Vocab-1)*int64(c.Hidden))-idle; got != want {
			t.Errorf("a token reads weights of %d bytes, expected %d", got, want)
		}
		if got, want := c.ActiveParameters(), c.Parameters()-idle/2; got != want {
			t.Errorf("%d active parameters, expected %d", got, want)
		}
		part := func(timings []mistral.Timing, err error) mistral.Timing {
			if err != nil {
				t.Fatal(err)
			}
			for i := range timings { // the whole pass first
				if span, err := timings[i].Run(t.Context()); err != nil || !(span.Seconds > 0) {
					t.Fatalf("%s: %g s, %v", timings[i].Part, span.Seconds, err)
				}
			}
			at := slices.IndexFunc(timings, func(t mistral.Timing) bool { return t.Part == mistral.PartExperts })
			if at < 0 {
				t.Fatal("no timing of experts")
			}
			return timings[at]
		}
		token := part(s.TokenTimings(t.Context(), 5))
		layers, top := float64(c.Layers), float64(c.TopK)
		launches := c.Layers * (2*c.TopK + 1)
		if s.Fused() {
			launches = c.Layers * 2
		}
		if token.Bytes != layers*top*expert || token.FLOPs != layers*top*expert || token.Launches != launches {
			t.Errorf("token: %g bytes, %g FLOP, %d launches; expected %g bytes and as many FLOP in fp16",
				token.Bytes, token.FLOPs, token.Launches, layers*top*expert)
		}
		prompt := part(s.PromptTimings(3))
		experts := prompt.Bytes / expert
		if prompt.FLOPs != 3*token.FLOPs || experts != math.Trunc(experts) || experts < layers*top || experts > 3*layers*top {
			t.Errorf("prompt of 3: %g FLOP, expected %g; weights of %g experts", prompt.FLOPs, 3*token.FLOPs, experts)
		}
	})
}
