package mistral

import (
	"context"
	"errors"
	"slices"
	"time"
)

// StopReason is the reason why a generation ended.
type StopReason string

const (
	StopToken  StopReason = "stop token"
	StopLength StopReason = "length"
	StopCaller StopReason = "caller" // Yield returned false
	StopError  StopReason = "error"  // includes interrupts
)

// Generation describes the text to generate.
type Generation struct {
	Prompt   []int32
	Tokens   int // at most
	Stop     []int32
	Sampling Sampling
	// Yield receives each token except stop tokens, and returns false to end the generation. May be nil.
	Yield func(token int32) bool
}

// Generated is the result of a [Generation]. Times are total host times.
type Generated struct {
	Tokens  []int32
	Reason  StopReason
	Prefill time.Duration // prompt, up to its last token's logits
	Decode  time.Duration // tokens after the first, which the prompt's logits give
	// Decoded is the number of tokens in Decode; the device may decode a few past a stop.
	Decoded int
}

// Rate is the number of tokens decoded per second, 0 if none were decoded.
func (g *Generated) Rate() float64 {
	if g.Decoded == 0 {
		return 0
	}
	return float64(g.Decoded) / g.Decode.Seconds()
}

// ErrNotFinite means that the logits are NaN or infinite: weights or activations exceed the type's range.
var ErrNotFinite = errors.New("the model's logits are not numbers: its activations are beyond the type's range")

func finite(logits []float32) error {
	for _, v := range logits {
		if v-v != 0 {
			return ErrNotFinite
		}
	}
	return nil
}

// burst returns how many tokens the device decodes between two checks by the host. Longer bursts spread the
// host's overhead; text is output per burst.
func (s *Session) burst() int {
	if s.slow() {
		return 1
	}
	return 8
}

// Generate continues a prompt. On an error it also returns the tokens so far. The session has then seen the
// prompt and the tokens, and possibly a few after a stop.
func (s *Session) Generate(ctx context.Context, g Generation) (out Generated, err error) {
	out.Reason = StopError
	if err := g.Sampling.Validate(); err != nil {
		return out, err
	}
	sampler := NewSampler(g.Sampling)
	start := time.Now()
	logits, err := s.Prefill(ctx, g.Prompt)
	if err != nil {
		return out, err
	}
	out.Prefill = time.Since(start)
	if err := finite(logits); err != nil {
		return out, err
	}
	if g.Tokens < 1 {
		out.Reason = StopLength
		return out, nil
	}
	next := sampler.Draw(logits)
	start = time.Now()
	defer func() { out.Decode = time.Since(start) }()
	// take reports whether to continue after a token.
	take := func(t int32) bool {
		if slices.Contains(g.Stop, t) {
			out.Reason = StopToken
			return false
		}
		out.Tokens = append(out.Tokens, t)
		if g.Yield != nil && !g.Yield(t) {
			out.Reason = StopCaller
			return false
		}
		if len(out.Tokens) == g.Tokens {
			out.Reason = StopLength
			return false
		}
		return true
	}
	if !take(next) {
		return out, nil
	}
	for {
		if !sampler.greedy() {
			logits, err := s.Step(ctx, next)
			if err == nil {
				err = finite(logits)
			}
			if err != nil {
				return out, err
			}
			out.Decoded++
			if next = sampler.Draw(logits); !take(next) {
				return out, nil
			}
			continue
		}
		tokens, _, err := s.Decode(ctx, next, min(s.burst(), g.Tokens-len(out.Tokens)))
		if err != nil {
			return out, err
		}
		out.Decoded += len(tokens)
		for _, next = range tokens {
			if !take(next) {
				// NaN stays in the cache, so checking the last logits is enough.
				last, err := s.download(1)
				if err == nil {
					err = finite(last)
				}
				return out, err
			}
		}
	}
}
