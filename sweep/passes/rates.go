package passes

import (
	"context"
	"errors"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/results"
)

// Rates are the rates of decoding after several contexts.
type Rates struct {
	// Prefill and Decode are tokens per second, by context and round.
	Prefill, Decode [][]float64
	// Read and Copied are the device's memory bandwidth in bytes per second, measured between the rounds.
	Read, Copied []float64
}

// Rates measures prompts of the lengths in contexts, each with tokens decoded after it, in a random order each
// round. It calls done after each round, counted from 1.
func (r *Record) Rates(ctx context.Context, s *mistral.Session, d kernels.Device, kernel string, contexts []int, tokens, rounds int,
	done func(round int)) (Rates, error) {
	out := Rates{Prefill: make([][]float64, len(contexts)), Decode: make([][]float64, len(contexts))}
	for _, n := range contexts { // code, launches, clocks
		if _, _, err := s.Rate(ctx, n, min(tokens, 8)); err != nil {
			return out, err
		}
	}
	if err := out.bandwidth(ctx, d); err != nil {
		return out, err
	}
	cached := s.TokenBytes(slices.Max(contexts)+tokens/2) < d.Spec().LastLevelCacheBytes
	for round := range rounds {
		for _, i := range Order(round, len(contexts)) {
			r.Begin()
			prefill, decode, err := s.Rate(ctx, contexts[i], tokens)
			if err != nil {
				return out, err
			}
			if err := errors.Join(
				r.Keep(kernels.DecoderPrompt, kernel, contexts[i], results.PhaseSweep, round, 1, kernels.Span{Seconds: prefill}),
				r.Keep(kernels.DecoderToken, kernel, contexts[i], results.PhaseSweep, round, tokens, kernels.Span{Seconds: decode}),
			); err != nil {
				return out, err
			}
			out.Prefill[i] = append(out.Prefill[i], float64(contexts[i])/prefill)
			out.Decode[i] = append(out.Decode[i], float64(tokens)/decode)
		}
		if !cached { // a cached model is not compared with memory bandwidth
			if err := out.bandwidth(ctx, d); err != nil {
				return out, err
			}
		}
		done(round + 1)
	}
	return out, nil
}

// bandwidth measures a device's memory bandwidth now, or takes the earlier result if the device measures only
// once.
func (r *Rates) bandwidth(ctx context.Context, d kernels.Device) (err error) {
	var read, copied float64
	if m, ok := d.(kernels.BandwidthMeter); ok {
		read, copied, err = m.Bandwidth(ctx)
	} else {
		var c kernels.Ceilings
		c, err = d.Ceilings(ctx)
		read, copied = c.ReadBandwidth, c.CopyBandwidth
	}
	r.Read, r.Copied = append(r.Read, read), append(r.Copied, copied)
	return err
}
