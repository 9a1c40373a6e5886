package mistral

import (
	"context"
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

type loader struct {
	ctx         context.Context
	m           *Model
	from        *checkpoint.Checkpoint // nil for random weights
	drawn       *drawnWeights          // of random weights
	done, total int64
	options     Options
}

const uploadBytes = 64 << 20

func (l *loader) load() error {
	m, c := l.m, &l.m.config
	var err error
	if m.embedding, err = l.vector("model.embed_tokens.weight", c.Vocab, c.Hidden); err != nil {
		return err
	}
	for i := range m.layers {
		at := &m.layers[i]
		if at.attentionNorm, err = l.vector(fmt.Sprintf("model.layers.%d.input_layernorm.weight", i), c.Hidden); err != nil {
			return err
		}
		if at.gateNorm, err = l.vector(fmt.Sprintf("model.layers.%d.post_attention_layernorm.weight", i), c.Hidden); err != nil {
			return err
		}
		if c.HeadNorms {
			query, key := c.HeadNormNames(i)
			if at.queryNorm, err = l.vector(query, c.Heads.Dim); err != nil {
				return err
			}
			if at.keyNorm, err = l.vector(key, c.Heads.Dim); err != nil {
				return err
			}
		}
		for _, p := range at.projections() {
			if err := l.projection(p); err != nil {
				return err
			}
		}
	}
	if m.norm, err = l.vector("model.norm.weight", c.Hidden); err != nil {
		return err
	}
	if m.head.shared {
		m.head.raw = m.embedding
		return l.prepare(&m.head)
	}
	return l.projection(&m.head)
}

func (m *Model) describe() {
	c := &m.config
	heads := c.Heads
	m.layers = make([]layer, c.Layers)
	for i := range m.layers {
		at := &m.layers[i]
		name := func(s string) string { return fmt.Sprintf("model.layers.%d.%s.weight", i, s) }
		at.qkv = newProjection(PartQKV, c.Hidden, rowsOf{name("self_attn.q_proj"), heads.Query * heads.Dim},
			rowsOf{name("self_attn.k_proj"), heads.KV * heads.Dim}, rowsOf{name("self_attn.v_proj"), heads.KV * heads.Dim})
		at.o = newProjection(PartO, heads.Query*heads.Dim, rowsOf{name("self_attn.o_proj"), c.Hidden})
		unit := func(expert int, gateUp, down Part) gatedUnit {
			gate, up, out := c.GatedUnit(i, expert)
			return gatedUnit{newProjection(gateUp, c.Hidden, rowsOf{gate, c.Inner}, rowsOf{up, c.Inner}),
				newProjection(down, c.Inner, rowsOf{out, c.Hidden})}
		}
		if c.Experts == 0 {
			at.gatedUnit = unit(0, PartGateUp, PartDown)
		} else {
			at.router = newProjection(PartRouter, c.Hidden, rowsOf{c.Router(i), c.Experts})
		}
		for expert := range c.Experts {
			at.experts = append(at.experts, unit(expert, PartExperts, PartExperts))
		}
		m.all = append(m.all, at.projections()...)
	}
	m.head = newProjection(PartHead, c.Hidden, rowsOf{"lm_head.weight", c.Vocab})
	m.head.shared = c.Tied
	m.all = append(m.all, &m.head)
}

// rowsOf is a tensor with that many rows of a projection.
type rowsOf struct {
	name string
	rows int
}

func (l *loader) vector(name string, shape ...int) (kernels.Buffer, error) {
	elements := int64(1)
	for _, n := range shape {
		elements *= int64(n)
	}
	b, err := l.m.alloc(elements*int64(l.m.dtype.Size()), name)
	if err != nil {
		return nil, err
	}
	if l.from == nil {
		return b, l.drawVector(b, shape...)
	}
	return b, l.upload(b, 0, name, shape...)
}

func (m *Model) alloc(bytes int64, what string) (kernels.Buffer, error) {
	b, err := m.dev.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	m.buffers = append(m.buffers, b)
	return b, nil
}

// projection uploads the tensors one below the other and prepares them for the kernel.
func (l *loader) projection(p *projection) error {
	if err := l.raw(p); err != nil {
		return err
	}
	return l.prepare(p)
}

func (l *loader) raw(p *projection) error {
	if l.from == nil {
		return l.draw(p)
	}
	var integers []byte
	bytes := int64(p.n) * int64(p.k) * int64(l.m.dtype.Size())
	if p.format != (kernels.WeightFormat{}) {
		q, err := l.quantized(p)
		var unfit *checkpoint.Error
		switch {
		case err == nil:
			p.format, integers = q.Format, q.Raw()
			bytes = int64(len(integers))
		case errors.As(err, &unfit) && l.options.Weights == nil:
			p.format = kernels.WeightFormat{} // the dequantized values
		default:
			return err
		}
	}
	var err error
	if p.raw, err = l.m.dev.Alloc(bytes); err != nil {
		return fmt.Errorf("%s: %w", p.tensors[0].name, err)
	}
	if integers != nil {
		return l.put(p.raw, 0, integers, p.tensors[0].name)
	}
	at := int64(0)
	for _, t := range p.tensors {
		if err := l.upload(p.raw, at, t.name, t.rows, p.k); err != nil {
			return err
		}
		at += int64(t.rows) * int64(p.k) * int64(l.m.dtype.Size())
	}
	return nil
}

// prepare converts an uploaded projection to the kernel's format and frees the raw weights if they are no
// longer needed.
func (l *loader) prepare(p *projection) error {
	_, w, err := l.m.prepare(p, l.m.kernel)
	if err != nil {
		return err
	}
	if d, ok := w.(kernels.Detached); ok && d.Detached() && !l.options.KeepRaw {
		if l.drawn.keeps(p) {
			return nil
		}
		return p.release()
	}
	l.drawn.gives(p)
	return nil
}

func (l *loader) upload(to kernels.Buffer, at int64, name string, shape ...int) error {
	t, err := l.from.Tensor(name, shape...)
	if err != nil {
		return err
	}
	data, err := t.As(l.m.dtype)
	if err != nil {
		return err
	}
	return l.put(to, at, data, name)
}

func (l *loader) put(to kernels.Buffer, at int64, data []byte, name string) error {
	for len(data) > 0 {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		n := min(len(data), uploadBytes)
		if err := to.Upload(at, data[:n]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		data, at, l.done = data[n:], at+int64(n), l.done+int64(n)
		if l.options.Progress != nil {
			l.options.Progress(min(l.done, l.total), l.total)
		}
	}
	return nil
}
