package mistral

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// historyLen is the number of chosen tokens that the device stores, so that the host need not read them
// sooner.
const historyLen = 64

// Session is one token sequence on a model: its keys and values, and its launches. One goroutine at a time
// may use it.
type Session struct {
	m         *Model
	kernel    string // of the products
	route     func(logits []float32, experts, topK int) (chosen []int, weights []float32)
	follow    *follower // nil unless compared with a reference
	options   SessionOptions
	positions int
	window    int
	batch     int
	capacity  int
	scale     float64
	at        int // tokens seen: the next one's position

	rope     kernels.Buffer    // fp32 [positions, Dim/2, 2]
	caches   []kernels.KVCache // of each layer
	tokens   kernels.Buffer    // int32 [batch], of a prompt
	token    kernels.Buffer    // int32 [1], of decoding
	position kernels.Buffer    // int32 [1], of the first row
	history  kernels.Buffer    // int32 [historyLen], chosen tokens
	x        kernels.Buffer    // fp32 [batch, Hidden], the residual stream
	hidden   kernels.Buffer    // [batch, Hidden], normalized
	qkv      kernels.Buffer    // [batch, Heads.Width()]
	attended kernels.Buffer    // [batch, Query·Dim]
	delta    kernels.Buffer    // [batch, Hidden], not yet added to x
	gateUp   kernels.Buffer    // [batch, 2·Inner], with experts [batch·TopK, 2·Inner]
	inner    kernels.Buffer    // [batch, Inner], with experts [batch·TopK, Inner]
	logits   kernels.Buffer    // [logitRows, Vocab]
	// With experts: logits of each layer's router [batch, Experts], at multiples of routedStride; the rows that experts get, and
	// their outputs, [batch·TopK, Hidden].
	routed, gathered, outputs kernels.Buffer
	routedStride              int
	// On devices that move rows: of each visit the row, then of each row's visits the entry, then the share.
	visits kernels.Buffer
	// On devices that choose experts: the choice of each layer, at multiples of choiceStride.
	choices kernels.Buffer
	buffers []kernels.Buffer // all of them

	passes map[int]*pass // by rows
	decode *decoder
}

type decoder struct {
	steps []step
	whole []step // one graph, or the steps
	fused bool
}

// NewSession allocates memory for a sequence and prepares a token's launches.
func (m *Model) NewSession(o SessionOptions) (s *Session, err error) {
	c := m.config
	s = &Session{m: m, kernel: m.kernel, route: route, options: o, scale: 1 / math.Sqrt(float64(c.Heads.Dim)), passes: map[int]*pass{}}
	_, _, batch, _ := o.plan(c)
	o.Batch = m.largestBatch(batch)
	s.positions, s.window, s.batch, s.capacity = o.plan(c)
	defer func() {
		if err != nil {
			err = fmt.Errorf("session of %d tokens: %w", s.positions, errors.Join(err, s.Close()))
			s = nil
		}
	}()
	size := int64(m.dtype.Size())
	take := func(bytes int64) (b kernels.Buffer) {
		if err != nil {
			return nil
		}
		if b, err = m.dev.Alloc(bytes); err == nil {
			s.buffers = append(s.buffers, b)
		}
		return b
	}
	slots := int64(c.Heads.KV) * int64(s.capacity) * int64(c.Heads.Dim)
	for range c.Layers {
		s.caches = append(s.caches, kernels.KVCache{Capacity: s.capacity, Keys: all(take(slots * size)), Values: all(take(slots * size))})
	}
	rows := int64(o.rows(s.batch, m.dtype))
	hidden, inner := int64(c.Hidden), int64(c.Inner)
	s.tokens, s.token, s.position, s.history = take(4*rows), take(4), take(4), take(4*historyLen)
	s.x, s.hidden, s.delta = take(rows*hidden*4), take(rows*hidden*size), take(rows*hidden*size)
	s.qkv, s.attended = take(rows*int64(c.Heads.Width())*size), take(rows*int64(c.Heads.Query*c.Heads.Dim)*size)
	visits := rows * int64(max(c.TopK, 1))
	s.gateUp, s.inner = take(visits*2*inner*size), take(visits*inner*size)
	if c.Experts > 0 {
		s.routedStride = (int(rows)*c.Experts + routedStep - 1) / routedStep * routedStep
		s.routed = take(int64(c.Layers*s.routedStride) * size)
		s.gathered, s.outputs = take(visits*hidden*size), take(visits*hidden*size)
		if _, ok := m.dev.(rowMover); ok {
			s.visits = take(3 * 4 * visits)
		}
		if _, ok := m.dev.(expertFuser); ok {
			s.choices = take(int64(c.Layers) * s.choiceStride())
		}
	}
	s.logits = take(logitRows * int64(c.Vocab) * size)
	s.rope = take(int64(s.positions) * int64(c.Heads.Dim) * 4)
	if err != nil {
		return s, err
	}
	// Kernels read whole rows that may be unwritten; NaN there would spread.
	for _, b := range s.buffers {
		if err := b.Fill(kernels.Zeros, kernels.INT8, b.Bytes(), 0); err != nil {
			return s, err
		}
	}
	if err := s.rope.Upload(0, littleEndian(c.RopeTable(s.positions))); err != nil {
		return s, err
	}
	if err := s.prepareExperts(); err != nil {
		return s, err
	}
	steps, fused, err := s.singleToken()
	if err != nil {
		return s, err
	}
	s.decode = &decoder{steps: steps, whole: steps, fused: fused}
	if g, ok := m.dev.(grapher); ok && !slices.ContainsFunc(steps, step.routed) {
		one, err := g.Graph(launches(steps))
		if err != nil {
			return s, err
		}
		s.decode.whole = []step{{launch: one}}
	}
	return s, nil
}

// routedStep aligns the router's logits of each layer, and choiceStep its choice in bytes.
const routedStep, choiceStep = 128, 256

func (s *Session) choiceStride() int64 {
	c := s.m.config
	return (kernels.ExpertChoiceBytes(c.Experts, c.TopK) + choiceStep - 1) / choiceStep * choiceStep
}

func littleEndian(values []float32) []byte {
	out := make([]byte, 0, 4*len(values))
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	return out
}

// Batch returns the largest number of prompt tokens per pass.
func (s *Session) Batch() int { return s.batch }

// Fused reports whether a token's operations are fused.
func (s *Session) Fused() bool { return s.decode.fused }

// Reset removes all tokens.
func (s *Session) Reset() { s.at = 0 }

// TokenBytes returns what decoding one token after behind others reads: the projections, of experts only those that a token
// goes through, one row of the embedding, and the cache.
func (s *Session) TokenBytes(behind int) int64 {
	c := s.m.config
	bytes := int64(0)
	for _, p := range s.m.projections() {
		if p.part != PartExperts {
			bytes += p.bytes(s.m.dtype)
		}
	}
	for i := range s.m.layers {
		bytes += int64(s.m.layers[i].expertBytes(s.m.dtype) * float64(c.TopK))
	}
	elements := int64(c.Hidden) + int64(2*c.Heads.KV*c.Heads.Dim)*int64(min(behind, s.window))*int64(c.Layers)
	return bytes + elements*int64(s.m.dtype.Size())
}

// Overflow is the error of more tokens than a session has positions.
type Overflow struct{ At, More, Positions int }

func (e *Overflow) Error() string {
	return fmt.Sprintf("%d tokens after %d: the session was made for %d", e.More, e.At, e.Positions)
}

func put(b kernels.Buffer, values ...int32) error {
	out := make([]byte, 0, 4*len(values))
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, uint32(v))
	}
	return b.Upload(0, out)
}

func (s *Session) check(tokens []int32) error {
	if len(tokens) == 0 {
		return errors.New("no tokens: expected at least one")
	}
	if s.at+len(tokens) > s.positions {
		return &Overflow{s.at, len(tokens), s.positions}
	}
	return CheckTokens(tokens, s.m.config.Vocab)
}

// CheckTokens returns an error that names the first token outside a vocabulary of this size.
func CheckTokens(tokens []int32, vocab int) error {
	for i, t := range tokens {
		if t < 0 || int(t) >= vocab {
			return fmt.Errorf("token %d is %d: the vocabulary has %d", i, t, vocab)
		}
	}
	return nil
}

func (s *Session) passOf(rows int) (*pass, error) {
	if p, ok := s.passes[rows]; ok {
		return p, nil
	}
	p, err := s.prompt(rows, s.options.Table)
	if err != nil {
		return nil, fmt.Errorf("prompt of %d tokens: %w", rows, err)
	}
	if len(s.passes) >= KeptPasses {
		clear(s.passes)
	}
	s.passes[rows] = p
	return p, nil
}

// KeptPasses is the number of prompt lengths with cached launches.
const KeptPasses = 8

// batches runs the tokens in batches. After each, before its logits, it calls done with the pass and the
// batch's first index.
func (s *Session) batches(ctx context.Context, tokens []int32, done func(p *pass, first int) error) error {
	if err := s.check(tokens); err != nil {
		return err
	}
	for first := 0; first < len(tokens); first += s.batch {
		rows := min(s.batch, len(tokens)-first)
		p, err := s.passOf(rows)
		if err != nil {
			return err
		}
		if err := errors.Join(put(s.tokens, tokens[first:first+rows]...), put(s.position, int32(s.at))); err != nil {
			return err
		}
		if _, err := s.run(ctx, p.steps[:p.outputs], 1); err != nil {
			return err
		}
		s.at += rows
		if err := done(p, first); err != nil {
			return err
		}
	}
	return nil
}

// slow reports whether a token takes so long that the host's overhead is negligible.
func (s *Session) slow() bool { return s.m.dev.Spec().Kind.Facts().Host }

// Prefill adds a prompt, or a part of one, and returns the logits of its last token.
func (s *Session) Prefill(ctx context.Context, tokens []int32) ([]float32, error) {
	var logits []float32
	err := s.batches(ctx, tokens, func(p *pass, first int) error {
		if first+p.rows < len(tokens) {
			return nil
		}
		if _, err := s.run(ctx, p.steps[p.outputs:], 1); err != nil {
			return err
		}
		var err error
		logits, err = s.download(1)
		return err
	})
	return logits, err
}

// All adds tokens and yields the logits of each in order: rows from first on, Vocab columns each. The slice
// is valid until yield returns.
func (s *Session) All(ctx context.Context, tokens []int32, yield func(first int, logits []float32) error) error {
	return s.batches(ctx, tokens, func(p *pass, first int) error {
		b := builder{s: s}
		b.norm(p.rows, 0, s.m.norm, true)
		var at []int
		for from := 0; from < p.rows; from += logitRows {
			at = append(at, len(b.steps))
			b.product(&s.m.head, nil, min(logitRows, p.rows-from), kernels.Operand{Buffer: s.hidden, Offset: from * s.m.config.Hidden},
				all(s.logits))
		}
		if b.err != nil {
			return b.err
		}
		at = append(at, len(b.steps))
		if _, err := s.m.dev.Execute(ctx, launches(b.steps[:at[0]]), at[0]); err != nil {
			return err
		}
		for i := range at[1:] {
			from := i * logitRows
			one := launches(b.steps[at[i]:at[i+1]])
			if _, err := s.m.dev.Execute(ctx, one, len(one)); err != nil {
				return err
			}
			logits, err := s.download(min(logitRows, p.rows-from))
			if err != nil {
				return err
			}
			if err := yield(first+from, logits); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Session) download(rows int) ([]float32, error) {
	out, err := s.read(s.logits, 0, rows*s.m.config.Vocab)
	if err != nil {
		return nil, fmt.Errorf("read logits: %w", err)
	}
	return out, nil
}

// Decode adds a token, lets the device decode n tokens greedily without the host, and returns them. The last
// is chosen but not yet added.
func (s *Session) Decode(ctx context.Context, token int32, n int) ([]int32, kernels.Span, error) {
	if err := s.check([]int32{token}); err != nil {
		return nil, kernels.Span{}, err
	}
	if s.at+n > s.positions {
		return nil, kernels.Span{}, &Overflow{s.at, n, s.positions}
	}
	if n < 1 || n > historyLen {
		return nil, kernels.Span{}, fmt.Errorf("decode %d tokens at a time: expected 1 to %d", n, historyLen)
	}
	if err := errors.Join(put(s.token, token), put(s.position, int32(s.at))); err != nil {
		return nil, kernels.Span{}, err
	}
	span, err := s.run(ctx, s.decode.whole, n)
	if err != nil {
		return nil, span, err
	}
	raw := make([]byte, 4*historyLen)
	if err := s.history.Download(0, raw); err != nil {
		return nil, span, fmt.Errorf("read tokens: %w", err)
	}
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(binary.LittleEndian.Uint32(raw[4*((s.at+i)%historyLen):]))
	}
	s.at += n
	return tokens, span, nil
}

// Step adds a token and returns the logits of the next.
func (s *Session) Step(ctx context.Context, token int32) ([]float32, error) {
	if _, _, err := s.Decode(ctx, token, 1); err != nil {
		return nil, err
	}
	return s.download(1)
}

// Close releases the session's memory.
func (s *Session) Close() error {
	var errs []error
	if s.decode != nil && len(s.decode.whole) == 1 {
		if c, ok := s.decode.whole[0].launch.(interface{ Close() error }); ok {
			errs = append(errs, c.Close())
		}
	}
	for _, b := range s.buffers {
		errs = append(errs, b.Close())
	}
	s.buffers = nil
	return errors.Join(errs...)
}
