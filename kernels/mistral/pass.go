package mistral

import (
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/table"
)

// Part is the purpose of a launch in a pass.
type Part string

// The parts of a pass in order. Fused launches have the name of their product; attention includes a fused
// rotation. A model with experts has router and experts instead of gate_up_proj, silu and down_proj. Fused, the
// router includes the norm and the choice; otherwise experts includes the host's work: reading the router's logits and sorting rows.
// Products are those of several projections in one launch.
const (
	PartEmbed     Part = "embed"
	PartNorm      Part = "norm"
	PartQKV       Part = "qkv_proj"
	PartRotate    Part = "rotate"
	PartAttention Part = "attention"
	PartO         Part = "o_proj"
	PartRouter    Part = "router"
	PartExperts   Part = "experts"
	PartGateUp    Part = "gate_up_proj"
	PartSiLU      Part = "silu"
	PartDown      Part = "down_proj"
	PartChain     Part = "products"
	PartHead      Part = "lm_head"
	PartChoose    Part = "choose"
)

// Parts lists all parts.
func Parts() []Part {
	return []Part{PartEmbed, PartNorm, PartQKV, PartRotate, PartAttention, PartO, PartRouter, PartExperts, PartGateUp, PartSiLU, PartDown,
		PartChain, PartHead, PartChoose}
}

type pass struct {
	rows  int
	steps []step
	// outputs is the index of the first step that computes logits, of the last row.
	outputs int
}

type builder struct {
	s     *Session
	steps []step
	err   error
}

func (b *builder) add(part Part, l kernels.Launch, err error) {
	b.all(part, []kernels.Launch{l}, err)
}

func (b *builder) all(part Part, ls []kernels.Launch, err error) {
	if b.err != nil {
		return
	}
	if err != nil {
		b.err = fmt.Errorf("%s: %w", part, err)
		return
	}
	for _, l := range ls {
		b.steps = append(b.steps, step{part: part, launch: l})
	}
}

// norm adds the previous product's output to the residual stream and normalizes it.
func (b *builder) norm(rows, from int, weight kernels.Buffer, add bool) {
	s := b.s
	n := kernels.Normalization{
		Rows: rows, Hidden: s.m.config.Hidden, FromRow: from, DType: s.m.dtype, Epsilon: s.m.config.Epsilon,
		X: all(s.x), Weight: all(weight), Out: all(s.hidden),
	}
	if add {
		n.Delta = all(s.delta)
	}
	l, err := s.m.dev.Normalize(n)
	b.add(PartNorm, l, err)
}

func (b *builder) product(p *projection, t *table.Table, rows int, a, c kernels.Operand) {
	ls, err := b.s.m.dispatch(p, t, rows, a, c)
	b.all(p.part, ls, err)
}

func all(b kernels.Buffer) kernels.Operand { return kernels.Operand{Buffer: b} }

// prompt builds the pass of rows tokens, unfused, with every product through the dispatcher. The logits are
// the last row's.
func (s *Session) prompt(rows int, t *table.Table) (*pass, error) {
	b := builder{s: s}
	b.body(rows, s.tokens, t)
	outputs := len(b.steps)
	b.output(rows, rows-1)
	return &pass{rows: rows, steps: b.steps, outputs: outputs}, b.err
}

// body is everything up to the residual stream after the last layer.
func (b *builder) body(rows int, tokens kernels.Buffer, t *table.Table) {
	s, m := b.s, b.s.m
	c := m.config
	l, err := m.dev.Embed(kernels.Embedding{
		Rows: rows, Hidden: c.Hidden, Vocab: c.Vocab, DType: m.dtype,
		Tokens: all(tokens), Table: all(m.embedding), X: all(s.x),
	})
	b.add(PartEmbed, l, err)
	for i := range m.layers {
		at := &m.layers[i]
		b.norm(rows, 0, at.attentionNorm, i > 0)
		b.product(&at.qkv, t, rows, all(s.hidden), all(s.qkv))
		rotation := s.rotation(rows, i)
		l, err := m.dev.Rotate(rotation)
		b.add(PartRotate, l, err)
		l, err = m.dev.Attend(s.attention(rows, i))
		b.add(PartAttention, l, err)
		b.product(&at.o, t, rows, all(s.attended), all(s.delta))
		b.norm(rows, 0, at.gateNorm, true)
		if c.Experts > 0 {
			b.experts(i, rows)
		} else {
			b.product(&at.gateUp, t, rows, all(s.hidden), all(s.gateUp))
			l, err = m.dev.Activate(kernels.GatedUnit{Rows: rows, Inner: c.Inner, DType: m.dtype, GateUp: all(s.gateUp), Out: all(s.inner)})
			b.add(PartSiLU, l, err)
			b.product(&at.down, t, rows, all(s.inner), all(s.delta))
		}
		if b.err != nil {
			b.err = fmt.Errorf("layer %d: %w", i, b.err)
			return
		}
	}
}

// output normalizes the rows from from on and computes the logits of the first of them.
func (b *builder) output(rows, from int) {
	b.norm(rows, from, b.s.m.norm, true)
	b.product(&b.s.m.head, nil, 1, all(b.s.hidden), all(b.s.logits))
}

func (s *Session) rotation(rows, layer int) kernels.Rotation {
	return kernels.Rotation{
		Rows: rows, Heads: s.m.config.Heads, DType: s.m.dtype, QKV: all(s.qkv), Position: all(s.position),
		Table: all(s.rope), Positions: s.positions, Cache: s.caches[layer],
		QueryNorm: all(s.m.layers[layer].queryNorm), KeyNorm: all(s.m.layers[layer].keyNorm), Epsilon: s.m.config.Epsilon,
	}
}

func (s *Session) attention(rows, layer int) kernels.Attention {
	h := s.m.config.Heads
	return kernels.Attention{
		Rows: rows, Heads: h, DType: s.m.dtype, Window: s.window, Scale: s.scale,
		Q: all(s.qkv), LDQ: h.Width(), Position: all(s.position), Length: s.positions,
		Cache: s.caches[layer], Out: all(s.attended),
	}
}

// singleToken builds the pass of one token, with the choice of the next: fused if the device supports it and
// the kernel is "auto", otherwise as a prompt of one.
func (s *Session) singleToken() (steps []step, fused bool, err error) {
	b := builder{s: s}
	f, can := s.m.dev.(fuser)
	if _, ok := f.(expertFuser); s.m.config.Experts > 0 {
		can = ok
	}
	if can && s.m.kernel == "auto" && !s.options.Unfused {
		b.fused(f)
		fused = true
		if unsupported := (*kernels.Unsupported)(nil); errors.As(b.err, &unsupported) {
			b, fused = builder{s: s}, false
		}
	}
	if !fused {
		b.body(1, s.token, nil)
		b.output(1, 0)
	}
	l, err := s.m.dev.Choose(kernels.TokenChoice{
		Vocab: s.m.config.Vocab, DType: s.m.dtype.Output(), Logits: all(s.logits),
		Token: all(s.token), Position: all(s.position), History: all(s.history), HistoryLen: historyLen,
	})
	b.add(PartChoose, l, err)
	return b.steps, fused, b.err
}

// fused computes a token in five launches per layer, six with experts, two where a launch has all products from one attention to
// the next.
func (b *builder) fused(f fuser) {
	s, m := b.s, b.s.m
	c := m.config
	l, err := m.dev.Embed(kernels.Embedding{
		Rows: 1, Hidden: c.Hidden, Vocab: c.Vocab, DType: m.dtype,
		Tokens: all(s.token), Table: all(m.embedding), X: all(s.x),
	})
	b.add(PartEmbed, l, err)
	next := fusedProducts{builder: b, fuser: f}
	for i := range m.layers {
		at := &m.layers[i]
		next.add(&at.qkv, kernels.FusedProduct{Norm: true, Weight: all(at.attentionNorm), C: all(s.qkv)})
		next.bind()
		if b.err != nil {
			return
		}
		l, err := f.RotateAttend(s.rotation(1, i), s.attention(1, i))
		b.add(PartAttention, l, err)
		next.add(&at.o, kernels.FusedProduct{A: all(s.attended), Add: true})
		if c.Experts > 0 {
			next.bind()
			b.fusedExperts(f.(expertFuser), i)
			continue
		}
		next.add(&at.gateUp, kernels.FusedProduct{Norm: true, Weight: all(at.gateNorm), Gated: true, C: all(s.inner)})
		next.add(&at.down, kernels.FusedProduct{A: all(s.inner), Add: true})
	}
	next.bind()
	next.add(&m.head, kernels.FusedProduct{Norm: true, Weight: all(m.norm), C: all(s.logits)})
	next.bind()
}

// fusedProducts collects products that depend on nothing but each other.
type fusedProducts struct {
	builder  *builder
	fuser    fuser
	products []kernels.FusedProduct
	of       []*projection
}

func (n *fusedProducts) add(p *projection, q kernels.FusedProduct) {
	b := n.builder
	w := b.weights(p)
	if b.err != nil {
		return
	}
	q.N, q.K, q.DType, q.Weights, q.Epsilon = p.n, p.k, b.s.m.dtype, w, b.s.m.config.Epsilon
	if q.Norm || q.Add {
		q.X = all(b.s.x)
	}
	n.products, n.of = append(n.products, q), append(n.of, p)
}

// bind adds their launches: one if the device has it, else one for each.
func (n *fusedProducts) bind() {
	products, of := n.products, n.of
	n.products, n.of = nil, nil
	if c, ok := n.fuser.(chainFuser); ok && len(products) > 1 {
		l, err := c.FuseChain(products)
		if unsupported := (*kernels.Unsupported)(nil); !errors.As(err, &unsupported) {
			n.put(PartChain, l, err, of...)
			return
		}
	}
	for i, q := range products {
		if n.builder.err != nil {
			return
		}
		l, err := n.fuser.Fuse(q)
		n.put(of[i].part, l, err, of[i])
	}
}

func (n *fusedProducts) put(part Part, l kernels.Launch, err error, of ...*projection) {
	b := n.builder
	if b.add(part, l, err); b.err == nil {
		b.steps[len(b.steps)-1].products = of
	}
}

// weights returns the projection's for the model's kernel; nil after an error.
func (b *builder) weights(p *projection) kernels.Weights {
	if b.err != nil {
		return nil
	}
	_, w, err := b.s.m.prepare(p, b.s.m.kernel)
	b.err = err
	return w
}

// fusedExperts adds a layer's router and experts.
func (b *builder) fusedExperts(f expertFuser, layer int) {
	s, m, at := b.s, b.s.m, &b.s.m.layers[layer]
	c := m.config
	o := kernels.FusedExperts{
		Hidden: c.Hidden, Inner: c.Inner, TopK: c.TopK, DType: m.dtype, Epsilon: c.Epsilon, X: all(s.x), Weight: all(at.gateNorm),
		Router: b.weights(&at.router), Inputs: all(s.inner),
		Choice: kernels.Operand{Buffer: s.choices, Offset: layer * int(s.choiceStride())},
	}
	for e := range at.experts {
		o.Units = append(o.Units, b.weights(&at.experts[e].gateUp))
		o.Outputs = append(o.Outputs, b.weights(&at.experts[e].down))
	}
	if b.err != nil {
		return
	}
	ls, err := f.FuseExperts(o)
	if err != nil {
		b.err = err
		return
	}
	b.all(PartRouter, ls[:1], nil)
	b.all(PartExperts, ls[1:], nil)
}
