package mistral

import (
	"context"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// StopReason says why a generation ended.
type StopReason string

// The reasons.
const (
	StopToken  StopReason = "stop token"
	StopLength StopReason = "length"
	StopCaller StopReason = "stop text"
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
	Decode  time.Duration // of all tokens but the first, which the prompt's logits give
	Span    kernels.Span  // what the device says of the tokens that it decoded by itself
}

// burst is how many tokens the device decodes before the host looks at them: what the
// host does between two bursts is spread over so many. The text comes in such pieces.
const burst = 8

// Generate continues a prompt. On an error what was generated before it is returned too.
func (s *Session) Generate(ctx context.Context, g Generation) (out Generated, err error) {
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
	out.Reason = StopLength
	if g.Tokens < 1 {
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
		return len(out.Tokens) < g.Tokens
	}
	if !take(next) {
		return out, nil
	}
	for {
		if !sampler.greedy() {
			logits, err := s.Step(ctx, next)
			if err != nil {
				return out, err
			}
			if next = sampler.Draw(logits); !take(next) {
				return out, nil
			}
			continue
		}
		tokens, span, err := s.Decode(ctx, next, min(burst, g.Tokens-len(out.Tokens)))
		if err != nil {
			return out, err
		}
		out.Span.Seconds += span.Seconds
		for _, next = range tokens {
			if !take(next) {
				return out, nil
			}
		}
	}
}
