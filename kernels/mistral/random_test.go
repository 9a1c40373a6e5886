package mistral_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cpu"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// Random weights give finite logits that depend on the tokens, the same every time, and quantized ones take less memory.
func TestRandom(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		dense, sparse := openFixture(t, "mistral").Config(), openMixture(t, "mixtral-8x2-window").Config()
		dense.Inner, sparse.Inner, sparse.Hidden = 256, 256, 64
		for _, c := range []checkpoint.Config{dense, sparse} {
			plain := int64(0)
			for _, format := range []string{"plain", "int4:32", "int8:column:zero"} {
				q, err := kernels.ParseWeights(format)
				if err != nil {
					t.Fatal(err)
				}
				var before []float32
				for range 2 {
					m, err := mistral.Random(t.Context(), d, c, mistral.Options{DType: kernels.FP16, Weights: &q})
					if err != nil {
						t.Fatal(err)
					}
					if plain == 0 {
						plain = m.Bytes()
					}
					if (m.Bytes() < plain) != (format != "plain") || format != "plain" && m.Weights() != q {
						t.Errorf("%s %s: %d bytes of %d, weights %v", c.ModelType, format, m.Bytes(), plain, m.Weights())
					}
					s, err := m.NewSession(mistral.SessionOptions{Positions: 8})
					if err != nil {
						t.Fatal(err)
					}
					logits, err := s.Prefill(t.Context(), []int32{1, 2, 3})
					if err != nil {
						t.Fatal(err)
					}
					checkRandomLogits(t, format, logits)
					next, err := s.Step(t.Context(), 5)
					if err != nil {
						t.Fatal(err)
					}
					checkRandomLogits(t, format, next)
					if slices.Equal(logits, next) || before != nil && !slices.Equal(before, next) {
						t.Errorf("%s %s: logits of other tokens, or of another model of the same weights, are wrong", c.ModelType, format)
					}
					before = next
					if err := errors.Join(s.Close(), m.Close()); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
}

func checkRandomLogits(t *testing.T, format string, logits []float32) {
	t.Helper()
	squares := 0.
	for _, x := range logits {
		squares += float64(x) * float64(x)
	}
	if rms := math.Sqrt(squares / float64(len(logits))); !(rms > 0.3 && rms < 3) {
		t.Errorf("%s: logits of size %g, expected about 1", format, rms)
	}
}

func TestRandomRefuses(t *testing.T) {
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := mistral.Random(t.Context(), d, openMixture(t, "mixtral-8x2-int4").Config(), mistral.Options{}); err == nil {
		t.Error("a quantized shape was accepted")
	}
	c := openMixture(t, "mixtral-8x2").Config()
	q, err := kernels.ParseWeights("int4:48")
	if err == nil {
		_, err = mistral.Random(t.Context(), d, c, mistral.Options{DType: kernels.FP16, Weights: &q})
	}
	if err == nil {
		t.Error("groups that do not divide rows were accepted")
	}
	c.Layers = 4000
	c.Inner = 1 << 20
	var large *mistral.TooLarge
	if _, err := mistral.Random(t.Context(), d, c, mistral.Options{DType: kernels.FP16}); !errors.As(err, &large) {
		t.Errorf("a model beyond the memory: %v", err)
	}
}

// Products from one attention to the next in one launch give the logits of products one by one, and count as all of theirs.
func TestChains(t *testing.T) {
	everyDevice(t, func(t *testing.T, d kernels.Device) {
		c := openFixture(t, "mistral").Config()
		c.Hidden, c.Inner, c.Layers = 256, 512, 3
		q := kernels.IntegerWeights(4, 64, false)
		for _, dtype := range []kernels.DType{kernels.FP16, kernels.BF16} {
			m, err := mistral.Random(t.Context(), d, c, mistral.Options{DType: dtype, Weights: &q})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			})
			fused := session(t, m, mistral.SessionOptions{Positions: 32})
			apart := session(t, m, mistral.SessionOptions{Positions: 32, Unfused: true})
			for token := range int32(20) {
				got, err := fused.Step(t.Context(), token)
				if err != nil {
					t.Fatal(err)
				}
				one, err := apart.Step(t.Context(), token)
				if err != nil {
					t.Fatal(err)
				}
				want := make([]float64, len(one))
				for i, v := range one {
					want[i] = float64(v)
				}
				if off := distance(got, want); !(off <= 4*bounds[dtype]) { // both have rounding errors
					t.Fatalf("%s, token %d: off by %.2g of the logits' range", dtype, token, off)
				}
			}
			timings, err := fused.TokenTimings(t.Context(), 5)
			if err != nil {
				t.Fatal(err)
			}
			whole, products, launches := 0., 0., 0
			for _, of := range timings {
				whole += of.Bytes
				if of.Part == mistral.PartChain {
					products, launches = of.Bytes, of.Launches
				}
			}
			if fused.Fused() && (launches != c.Layers || !(products > whole/2)) {
				t.Errorf("%s: %d launches of several products, which read %g bytes of %g", dtype, launches, products, whole)
			}
			if want := float64(fused.TokenBytes(0)); whole < want/2 || whole > want {
				t.Errorf("%s: parts read %g bytes, a token %g", dtype, whole, want)
			}
		}
	})
}
