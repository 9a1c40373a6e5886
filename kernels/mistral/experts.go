package mistral

import (
	"context"
	"fmt"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// mixture is a layer's gated units in a pass of some rows. Which products it runs depends on the router's logits, so the
// host reads them, sorts the rows by expert, and binds the products of the experts that have rows. The device moves rows and
// adds up outputs if it can, otherwise the host does.
type mixture struct {
	s      *Session
	index  int // of the layer
	layer  *layer
	rows   int
	logits int // offset of the layer's logits in s.routed
	// bound are the products of a single row, by expert and entry; prompts bind theirs every time.
	bound map[[2]int][2][]kernels.Launch
	// gather and scatter are nil if the host moves rows.
	gather, scatter kernels.Launch
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
	if d, ok := s.m.dev.(rowMover); ok && b.err == nil {
		b.err = m.bindMoves(d)
	}
	if b.err == nil {
		b.steps = append(b.steps, step{part: PartExperts, mixture: m})
	}
}

// bindMoves binds the launches that move rows.
func (m *mixture) bindMoves(d rowMover) (err error) {
	s, c := m.s, m.s.m.config
	visits := m.rows * c.TopK
	at := func(part int) kernels.Operand { return kernels.Operand{Buffer: s.visits, Offset: part * visits} }
	m.gather, err = d.CopyRows(kernels.ExpertRows{Count: visits, Columns: c.Hidden, DType: s.m.dtype, From: all(s.hidden), FromRows: m.rows,
		To: all(s.gathered), Rows: at(0)})
	if err == nil {
		m.scatter, err = d.SumRows(kernels.ExpertSums{Count: m.rows, Columns: c.Hidden, TopK: c.TopK, DType: s.m.dtype,
			From: all(s.outputs), To: all(s.delta), Rows: at(1), Shares: at(2)})
	}
	return err
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

// run reads the router's logits and writes the weighted sums to s.delta. The span's time is the host's.
func (m *mixture) run(ctx context.Context) (kernels.Span, error) {
	s, c := m.s, m.s.m.config
	start := time.Now()
	logits, err := s.read(s.routed, m.logits, m.rows*c.Experts)
	if err != nil {
		return kernels.Span{}, fmt.Errorf("read the router's logits: %w", err)
	}
	chosen, weights := s.routes(logits)
	if s.follow != nil {
		s.follow.correct(m.index, s.at, logits, chosen, weights, c.TopK)
	}
	r := sorted(chosen, weights, c.Experts, c.TopK)
	in := all(s.hidden)
	if m.rows > 1 {
		in = all(s.gathered)
	}
	ls, err := m.launches(r, in)
	if err != nil {
		return kernels.Span{}, err
	}
	move := m.moved
	if m.gather == nil {
		move = m.movedByHost
	}
	span, err := move(ctx, r, ls)
	span.Seconds = time.Since(start).Seconds()
	return span, err
}

// moved runs the launches between those that move rows.
func (m *mixture) moved(ctx context.Context, r routing, ls []kernels.Launch) (kernels.Span, error) {
	if err := m.s.visits.Upload(0, r.encoded()); err != nil {
		return kernels.Span{}, fmt.Errorf("write the rows of experts: %w", err)
	}
	if m.rows > 1 {
		ls = append([]kernels.Launch{m.gather}, ls...)
	}
	ls = append(ls, m.scatter)
	for _, l := range ls {
		// The rows of experts differ all the time, and each number of them would run twice.
		if q, ok := l.(interface{ SkipWarmUp() }); ok {
			q.SkipWarmUp()
		}
	}
	return m.s.m.dev.Execute(ctx, ls, len(ls))
}

// movedByHost runs the launches and moves rows before and after them.
func (m *mixture) movedByHost(ctx context.Context, r routing, ls []kernels.Launch) (kernels.Span, error) {
	if m.rows > 1 {
		if err := m.s.gather(r); err != nil {
			return kernels.Span{}, fmt.Errorf("gather the rows of experts: %w", err)
		}
	}
	span, err := m.s.m.dev.Execute(ctx, ls, len(ls))
	if err != nil {
		return span, err
	}
	if err := m.s.scatter(r); err != nil {
		return span, fmt.Errorf("add the outputs of experts: %w", err)
	}
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

// bytes returns the weights that the last run read, and launches its launches.
func (m *mixture) bytes() float64 {
	return m.layer.expertBytes(m.s.m.dtype) * float64(m.active)
}

func (m *mixture) launchCount() int { return 2*m.active + 1 }

// expertFLOPs counts 2·M·N·K of the products of that many visits to experts.
func (l *layer) expertFLOPs(visits int) float64 {
	of := &l.experts[0]
	return kernels.Shape{M: visits, N: of.gateUp.n, K: of.gateUp.k}.FLOPs() + kernels.Shape{M: visits, N: of.down.n, K: of.down.k}.FLOPs()
}

// expertBytes is the mean size of an expert's weights: they may be stored in different formats.
func (l *layer) expertBytes(dtype kernels.DType) float64 {
	bytes := int64(0)
	for i := range l.experts {
		bytes += l.experts[i].gateUp.bytes(dtype) + l.experts[i].down.bytes(dtype)
	}
	return float64(bytes) / float64(max(len(l.experts), 1))
}
