package mistral

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Timing is a pass, or one of its parts, that can be timed in turn with others of its session.
type Timing struct {
	Part Part
	// Rows are the pass's tokens, Context those before it.
	Rows, Context int
	Launches      int // in a pass
	// FLOPs is 2·M·N·K of all its products, and Bytes the weights that they read; both are 0 for the whole
	// pass and for parts without products. If the host routes to experts, their Launches and Bytes are those of the last run.
	FLOPs, Bytes float64

	session *Session
	steps   []step
}

// Run executes it once and returns the device's timing. A part reads what the previous pass left, so run the
// whole pass once first.
func (t *Timing) Run(ctx context.Context) (kernels.Span, error) {
	if err := put(t.session.position, int32(t.Context)); err != nil {
		return kernels.Span{}, err
	}
	span, err := t.session.run(ctx, t.steps, 1)
	if t.Part == PartExperts && t.steps[0].routed() {
		t.Launches, t.Bytes = 0, 0
		for _, st := range t.steps {
			t.Launches += st.mixture.launchCount()
			t.Bytes += st.mixture.bytes()
		}
	}
	return span, err
}

// PromptTimings prepares a prompt of rows tokens for timing: the whole pass, then its parts. It resets the
// session. The timings are valid until the session is used otherwise.
func (s *Session) PromptTimings(rows int) ([]Timing, error) {
	p, err := s.randomPrompt(rows)
	if err != nil {
		return nil, err
	}
	return s.timings(p.steps, p.steps, rows), nil
}

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

// TokenTimings is [Session.PromptTimings] for decoding one token after behind tokens.
func (s *Session) TokenTimings(ctx context.Context, behind int) ([]Timing, error) {
	if err := s.fill(ctx, behind); err != nil {
		return nil, err
	}
	if err := put(s.token, 0); err != nil {
		return nil, err
	}
	return s.timings(s.decode.steps, s.decode.whole, 1), nil
}

func (s *Session) fill(ctx context.Context, tokens int) error {
	s.Reset()
	if tokens == 0 {
		return nil
	}
	return s.batches(ctx, RandomTokens(tokens, s.m.config.Vocab, 1), func(*pass, int) error { return nil })
}

// RandomTokens returns n tokens of a vocabulary.
func RandomTokens(n, vocab int, seed uint64) []int32 {
	r := rand.New(rand.NewPCG(seed, 0))
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(r.IntN(vocab))
	}
	return tokens
}

func (s *Session) timings(steps, whole []step, rows int) []Timing {
	timing := func(part Part, steps []step) Timing {
		return Timing{Part: part, Rows: rows, Context: s.at, Launches: len(steps), session: s, steps: steps}
	}
	by := map[Part][]step{}
	for _, st := range steps {
		by[st.part] = append(by[st.part], st)
	}
	out := []Timing{timing("", whole)}
	for _, part := range Parts() {
		if len(by[part]) == 0 {
			continue
		}
		t := timing(part, by[part])
		for i := range s.m.layers {
			if part == PartExperts {
				t.FLOPs += s.m.layers[i].expertFLOPs(rows * s.m.config.TopK)
				if rows == 1 {
					t.Bytes += s.m.layers[i].expertBytes(s.m.dtype) * float64(s.m.config.TopK)
				}
			}
		}
		for _, p := range s.productsOf(part, by[part]) {
			m := rows
			if part == PartHead {
				m = 1
			}
			t.FLOPs += kernels.Shape{M: m, N: p.n, K: p.k}.FLOPs()
			t.Bytes += float64(p.bytes(s.m.dtype))
		}
		out = append(out, t)
	}
	return out
}

// productsOf returns what a part's steps multiply with: all of that name, unless launches are fused. Experts are not among them.
func (s *Session) productsOf(part Part, steps []step) (all []*projection) {
	for _, st := range steps {
		all = append(all, st.products...)
	}
	if len(all) > 0 || part == PartExperts {
		return all
	}
	for _, p := range s.m.projections() {
		if p.part == part {
			all = append(all, p)
		}
	}
	return all
}

// TimePrompt returns the device's timing of one prompt of rows tokens from an empty session.
func (s *Session) TimePrompt(ctx context.Context, rows int) (kernels.Span, error) {
	p, err := s.randomPrompt(rows)
	if err != nil {
		return kernels.Span{}, err
	}
	if err := put(s.position, 0); err != nil {
		return kernels.Span{}, err
	}
	return s.run(ctx, p.steps, 1)
}

// Rate returns the host's seconds for a prompt of random tokens and for greedy decoding after it. It resets
// the session.
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
