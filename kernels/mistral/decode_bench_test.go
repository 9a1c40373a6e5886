package mistral_test

import (
	"cmp"
	"errors"
	"fmt"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// BenchmarkDecode measures decoding on the first GPU with random weights of a shape, and each part of a token: what
// `gemmaudit mistral bench --model` measures end to end.
func BenchmarkDecode(b *testing.B) {
	gpus, _ := cuda.Provider{}.Open()
	if len(gpus) == 0 {
		b.Skip("no GPU")
	}
	d := gpus[0]
	defer d.Close()
	ceilings, err := d.Ceilings(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	fmt.Printf("read %.4g TB/s, copy %.4g TB/s\n", ceilings.ReadBandwidth*1e-12, ceilings.CopyBandwidth*1e-12)
	for _, c := range []struct {
		model, weights string
		layers         int
	}{{"mixtral-8x7b", "int4:128", 0}, {"mixtral-8x7b", "plain", 12}, {"mixtral-8x7b", "plain", 0}, {"mistral-7b", "int4:128", 0},
		{"mistral-7b", "plain", 0}} {
		name := fmt.Sprintf("%s/%s/%d", c.model, c.weights, c.layers)
		b.Run(name, func(b *testing.B) {
			q, err := kernels.ParseWeights(c.weights)
			if err != nil {
				b.Fatal(err)
			}
			shape, _ := checkpoint.Preset(c.model)
			shape.Layers = cmp.Or(c.layers, shape.Layers)
			m, err := mistral.Random(b.Context(), d, shape, mistral.Options{Weights: &q})
			if large := (*mistral.TooLarge)(nil); errors.As(err, &large) {
				b.Skip(err)
			}
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			s, err := m.NewSession(mistral.SessionOptions{Positions: 2048})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for _, context := range []int{128, 1024} {
				rate, prefill := 0., 0.
				for range 4 {
					const tokens = 64
					first, seconds, err := s.Rate(b.Context(), context, tokens)
					if err != nil {
						b.Fatal(err)
					}
					rate, prefill = max(rate, tokens/seconds), max(prefill, float64(context)/first)
				}
				bytes := float64(s.TokenBytes(context + 32))
				fmt.Printf("%s after %d, fused %v: %.1f tokens/s, %.4g GB a token, %.1f %% of copy, prompt %.0f tokens/s\n", name, context,
					s.Fused(), rate, bytes*1e-9, 100*bytes*rate/ceilings.CopyBandwidth, prefill)
			}
			reportParts(b, s)
		})
	}
}

func reportParts(b *testing.B, s *mistral.Session) {
	b.Helper()
	timings, err := s.TokenTimings(b.Context(), 128)
	if err != nil {
		b.Fatal(err)
	}
	for i := range timings {
		best := 0.
		for range 5 {
			span, err := timings[i].Run(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if best == 0 || span.Seconds < best {
				best = span.Seconds
			}
		}
		of := timings[i]
		fmt.Printf("  %-14s %8.1f us, %3d launches, %6.3f TB/s\n", cmp.Or(string(of.Part), "token"), best*1e6, of.Launches,
			of.Bytes/best*1e-12)
	}
}
