package mistral

import (
	"context"
	"fmt"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// mixture is a layer's gated units in a pass of some rows. Which products it runs depends on the router's logits, so the
// host reads them, sorts the rows by expert, binds the products of the experts that have rows, and adds up their outputs.
type mixture struct {
	s      *Session
	index  int // of the layer
	layer  *layer
	rows   int
	logits int // offset of the layer's logits in s.routed
	// bound are the products of a single row, by expert and entry; prompts bind theirs every time.
	bound map[[2]int][2][]kernels.Launch
	// active is the number of experts with rows in the last run.
	active int
}

// experts adds a layer's router and gated units.
func (b *builder) experts(layer, rows int) {
	s := b.s
	m := &mixture{s: s, index: layer, layer: &s.m.layers[layer], rows: rows, logits: layer * s.routedStride}
	b.product(&m.layer.router, nil, rows, all(s.hidden), kernels.Operand{Buffer: s.routed, Offset: m.logits})
	if rows == 1 {
		m.bound = map[[2]int][2][]kernels.Launch{}
	}
	if b.err == nil {
		b.steps = append(b.steps, step{part: PartExperts, mixture: m})
	}
}

// prepareExperts prepares all experts for the session's kernel, so that no pass has to.
func (s *Session) prepareExperts() error {
	for _, p := range s.m.projections() {
		if p.part != PartExperts {
			continue
		}
		if _, _, err := s.m.prepare(p, s.kernel); err != nil {
			return err
		}
	}
	return nil
}

// run reads the router's logits and the hidden rows, and writes the weighted sums to s.delta. The span's time is the host's.
func (m *mixture) run(ctx context.Context) (kernels.Span, error) {
	s, c := m.s, m.s.m.config
	start := time.Now()
	logits, err := s.read(s.routed, m.logits, m.rows*c.Experts)
	if err != nil {
		return kernels.Span{}, fmt.Errorf("read the router's logits: %w", err)
	}
	chosen, weights := s.route(logits, c.Experts, c.TopK)
	if s.follow != nil {
		s.follow.correct(m.index, s.at, logits, chosen, weights, c.TopK)
	}
	r := sorted(chosen, weights, c.Experts, c.TopK)
	in := all(s.hidden)
	if m.rows > 1 {
		in = all(s.gathered)
		if err := s.gather(r); err != nil {
			return kernels.Span{}, fmt.Errorf("gather the rows of experts: %w", err)
		}
	}
	ls, err := m.launches(r, in)
	if err != nil {
		return kernels.Span{}, err
	}
	span, err := s.m.dev.Execute(ctx, ls, len(ls))
	if err != nil {
		return span, err
	}
	if err := s.scatter(r); err != nil {
		return span, fmt.Errorf("add the outputs of experts: %w", err)
	}
	span.Seconds = time.Since(start).Seconds()
	return span, nil
}

// launches returns the products of all experts with rows: gates, activation, then outputs.
func (m *mixture) launches(r routing, in kernels.Operand) ([]kernels.Launch, error) {
	s, c := m.s, m.s.m.config
	var gates, downs []kernels.Launch
	m.active = 0
	for e := range m.layer.experts {
		if r.count(e) == 0 {
			continue
		}
		m.active++
		both, err := m.products(e, r.first[e], r.count(e), in)
		if err != nil {
			return nil, fmt.Errorf("expert %d, %d of %d rows: %w", e, r.count(e), m.rows, err)
		}
		gates, downs = append(gates, both[0]...), append(downs, both[1]...)
	}
	act, err := s.m.dev.Activate(kernels.GatedUnit{Rows: len(r.rows), Inner: c.Inner, DType: s.m.dtype,
		GateUp: all(s.gateUp), Out: all(s.inner)})
	if err != nil {
		return nil, err
	}
	return append(append(gates, act), downs...), nil
}

// products returns an expert's launches for count entries from first on, before and after the activation.
func (m *mixture) products(expert, first, count int, in kernels.Operand) (out [2][]kernels.Launch, err error) {
	s, c := m.s, m.s.m.config
	key := [2]int{expert, first}
	if known, ok := m.bound[key]; ok {
		return known, nil
	}
	if m.rows > 1 { // the rows of a single token are all the same
		in.Offset += first * c.Hidden
	}
	at := func(b kernels.Buffer, columns int) kernels.Operand {
		return kernels.Operand{Buffer: b, Offset: first * columns}
	}
	of := &m.layer.experts[expert]
	if out[0], err = s.m.bind(&of.gateUp, s.kernel, []int{count}, in, at(s.gateUp, 2*c.Inner)); err != nil {
		return out, err
	}
	if out[1], err = s.m.bind(&of.down, s.kernel, []int{count}, at(s.inner, c.Inner), at(s.outputs, c.Hidden)); err != nil {
		return out, err
	}
	if m.bound != nil {
		m.bound[key] = out
	}
	return out, nil
}

// gather copies each entry's row of s.hidden to s.gathered.
func (s *Session) gather(r routing) error {
	row := s.m.config.Hidden * s.m.dtype.Size()
	from, to := make([]byte, len(r.entries)*row), make([]byte, len(r.rows)*row)
	if err := s.hidden.Download(0, from); err != nil {
		return err
	}
	for i, at := range r.rows {
		copy(to[i*row:(i+1)*row], from[at*row:])
	}
	return s.gathered.Upload(0, to)
}

// scatter sets each row of s.delta to the weighted sum of its entries' outputs, in fp32 and rounded once.
func (s *Session) scatter(r routing) error {
	hidden, dtype := s.m.config.Hidden, s.m.dtype
	outputs, err := s.read(s.outputs, 0, len(r.rows)*hidden)
	if err != nil {
		return err
	}
	delta := make([]byte, len(r.entries)*hidden*dtype.Size())
	each(len(r.entries), func(from, to int) {
		sum := make([]float32, hidden)
		for row := from; row < to; row++ {
			clear(sum)
			for _, i := range r.entries[row] {
				weight := r.weights[i]
				for j, x := range outputs[i*hidden : (i+1)*hidden] {
					sum[j] += weight * x
				}
			}
			encodeFloats(dtype, sum, delta[row*hidden*dtype.Size():])
		}
	})
	return s.delta.Upload(0, delta)
}

// flops counts 2·M·N·K of the products of all experts.
func (m *mixture) flops() float64 {
	c := m.s.m.config
	of := &m.layer.experts[0]
	rows := m.rows * c.TopK
	return kernels.Shape{M: rows, N: of.gateUp.n, K: of.gateUp.k}.FLOPs() + kernels.Shape{M: rows, N: of.down.n, K: of.down.k}.FLOPs()
}

// bytes returns the weights that the last run read, and launches its launches.
func (m *mixture) bytes() float64 {
	return m.layer.expertBytes(m.s.m.dtype) * float64(m.active)
}

func (m *mixture) launchCount() int { return 2*m.active + 1 }

// expertBytes is the mean size of an expert's weights: they may be stored in different formats.
func (l *layer) expertBytes(dtype kernels.DType) float64 {
	bytes := int64(0)
	for i := range l.experts {
		bytes += l.experts[i].gateUp.bytes(dtype) + l.experts[i].down.bytes(dtype)
	}
	return float64(bytes) / float64(max(len(l.experts), 1))
}
