package mistral

import (
	"context"
	"errors"
	"slices"
	"time"
)

// StopReason says why a generation ended.
type StopReason string

// The reasons.
const (
	StopToken  StopReason = "stop token"
	StopLength StopReason = "length"
	StopCaller StopReason = "caller" // Yield said so
	StopError  StopReason = "error"  // an interrupt among them
)

// Generation is what is generated, and how.
type Generation struct {
	Prompt   []int32
	Tokens   int // at most
	Stop     []int32
	Sampling Sampling
	// Yield gets each token as soon as the host knows it, stop tokens excepted, and
	// returns false to end the generation. May be nil.
	Yield func(token int32) bool
}

// Generated is what came of a [Generation]. Times are the host's, all told.
type Generated struct {
	Tokens  []int32
	Reason  StopReason
	Prefill time.Duration // of the prompt, until its last token's logits were known
	Decode  time.Duration // of the tokens behind the first, which the prompt's logits give
	// Decoded is how many tokens Decode is the time of: past a stop the device may have
	// gone on for a few.
	Decoded int
}

// ErrNotFinite is the error of a model whose logits are not numbers: weights or
// activations are beyond the type's range.
var ErrNotFinite = errors.New("the model's logits are not numbers: its activations are beyond the type's range")

// finite returns [ErrNotFinite] where a logit is NaN or infinite.
func finite(logits []float32) error {
	for _, v := range logits {
		if v-v != 0 {
			return ErrNotFinite
		}
	}
	return nil
}

// burst is how many tokens a device decodes before the host looks at them: what the host
// does between two bursts is spread over so many, and the text comes in such pieces.
func (s *Session) burst() int {
	if s.slow() {
		return 1
	}
	return 8
}

// Generate continues a prompt. On an error what was generated before it is returned too.
// The session has then seen the prompt and the tokens, and past a stop maybe some more.
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
	// take says whether to go on after a token.
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
				// NaN stays in the cache, so that the last logits tell of all.
				last, err := s.download(1)
				if err == nil {
					err = finite(last)
				}
				return out, err
			}
		}
	}
}
