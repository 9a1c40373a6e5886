package mistral

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// PartTime is what one part of a pass takes, of all layers together.
type PartTime struct {
	Part Part
	// Launches is how many there are in a pass.
	Launches int
	// Seconds are samples: the part's launches of all layers, back to back.
	Seconds []float64
	// FLOPs is 2·M·N·K of all its products, 0 for other parts.
	FLOPs float64
	// Bytes is what its products read of weights, 0 for other parts.
	Bytes float64
}

// Profile is what a pass consists of.
type Profile struct {
	Rows    int
	Context int // tokens before it
	Parts   []PartTime
	// Seconds are samples of the whole pass.
	Seconds []float64
}

// ProfilePrompt times a prompt of rows tokens and each of its parts, in interleaved
// rounds. The session's tokens are forgotten.
func (s *Session) ProfilePrompt(ctx context.Context, rows, rounds int) (*Profile, error) {
	p, err := s.randomPrompt(rows)
	if err != nil {
		return nil, err
	}
	return s.profile(ctx, p.steps, launches(p.steps), rows, rounds)
}

// randomPrompt forgets the session's tokens and makes one pass of rows random ones ready.
func (s *Session) randomPrompt(rows int) (*pass, error) {
	s.Reset()
	if rows > s.batch {
		return nil, fmt.Errorf("time a prompt of %d tokens: a pass has at most %d", rows, s.batch)
	}
	tokens := RandomTokens(rows, s.m.config.Vocab, 1)
	if err := s.check(tokens); err != nil {
		return nil, err
	}
	p, err := s.passOf(rows)
	if err != nil {
		return nil, err
	}
	return p, put(s.tokens, tokens...)
}

// ProfileToken times the decoding of one token behind so many, and each of its parts.
func (s *Session) ProfileToken(ctx context.Context, behind, rounds int) (*Profile, error) {
	if err := s.fill(ctx, behind); err != nil {
		return nil, err
	}
	if err := put(s.token, 0); err != nil {
		return nil, err
	}
	return s.profile(ctx, s.decode.steps, s.decode.whole, 1, rounds)
}

// fill brings the session to a context of so many random tokens.
func (s *Session) fill(ctx context.Context, tokens int) error {
	s.Reset()
	if tokens == 0 {
		return nil
	}
	return s.batches(ctx, RandomTokens(tokens, s.m.config.Vocab, 1), func(*pass, int) error { return nil })
}

// RandomTokens are n tokens of a vocabulary.
func RandomTokens(n, vocab int, seed uint64) []int32 {
	r := rand.New(rand.NewPCG(seed, 0))
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(r.IntN(vocab))
	}
	return tokens
}

// profile times a pass, whole as it is used and by the parts of its steps, after one round
// that does not count. A part alone runs on what the pass before it left: on ordinary
// numbers.
func (s *Session) profile(ctx context.Context, steps []step, whole []kernels.Launch, rows, rounds int) (*Profile, error) {
	out := &Profile{Rows: rows, Context: s.at}
	by := map[Part][]kernels.Launch{}
	for _, st := range steps {
		by[st.part] = append(by[st.part], st.launch)
	}
	for _, part := range Parts() {
		if len(by[part]) == 0 {
			continue
		}
		t := PartTime{Part: part, Launches: len(by[part])}
		for _, p := range s.m.projections() {
			if p.part == part {
				m := rows
				if part == PartHead {
					m = 1
				}
				t.FLOPs += kernels.Shape{M: m, N: p.n, K: p.k}.FLOPs()
				t.Bytes += float64(p.n) * float64(p.k) * float64(s.m.dtype.Size())
			}
		}
		out.Parts = append(out.Parts, t)
	}
	for round := range 1 + rounds {
		if err := put(s.position, int32(s.at)); err != nil {
			return nil, err
		}
		span, err := s.m.dev.Execute(ctx, whole, len(whole))
		if err != nil {
			return nil, err
		}
		if round > 0 {
			out.Seconds = append(out.Seconds, span.Seconds)
		}
		for i := range out.Parts {
			p := &out.Parts[i]
			if err := put(s.position, int32(s.at)); err != nil {
				return nil, err
			}
			span, err := s.m.dev.Execute(ctx, by[p.Part], len(by[p.Part]))
			if err != nil {
				return nil, err
			}
			if round > 0 {
				p.Seconds = append(p.Seconds, span.Seconds)
			}
		}
	}
	return out, nil
}

// TimePrompt is the device's time of one prompt of rows tokens from an empty session.
func (s *Session) TimePrompt(ctx context.Context, rows int) (seconds float64, err error) {
	p, err := s.randomPrompt(rows)
	if err != nil {
		return 0, err
	}
	if err := put(s.position, 0); err != nil {
		return 0, err
	}
	whole := launches(p.steps)
	span, err := s.m.dev.Execute(ctx, whole, len(whole))
	return span.Seconds, err
}

// Rate is what the host sees of a prompt of random tokens and of tokens decoded greedily
// behind it: seconds of both. The session's tokens are forgotten.
func (s *Session) Rate(ctx context.Context, prompt, tokens int) (prefill, decode float64, err error) {
	s.Reset()
	start := time.Now()
	logits, err := s.Prefill(ctx, RandomTokens(prompt, s.m.config.Vocab, 1))
	if err != nil {
		return 0, 0, err
	}
	prefill = time.Since(start).Seconds()
	next := Likeliest(logits)
	start = time.Now()
	for done := 0; done < tokens; {
		n := min(s.burst(), tokens-done)
		chosen, _, err := s.Decode(ctx, next, n)
		if err != nil {
			return 0, 0, err
		}
		next = chosen[n-1]
		done += n
	}
	return prefill, time.Since(start).Seconds(), nil
}
