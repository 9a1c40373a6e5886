package mistral

import (
	"context"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// loader brings tensors to the device, by the names that Hugging Face gives them.
type loader struct {
	ctx         context.Context
	m           *Model
	from        *checkpoint.Checkpoint
	done, total int64
	options     Options
}

// uploadBytes is how much goes to the device between two looks at the context.
const uploadBytes = 64 << 20

func (l *loader) load() error {
	m, c := l.m, &l.m.config
	heads := c.Heads
	var err error
	if m.embedding, err = l.vector("model.embed_tokens.weight", c.Vocab, c.Hidden); err != nil {
		return err
	}
	m.layers = make([]layer, c.Layers)
	for i := range m.layers {
		at := &m.layers[i]
		name := func(s string) string { return fmt.Sprintf("model.layers.%d.%s.weight", i, s) }
		if at.attentionNorm, err = l.vector(name("input_layernorm"), c.Hidden); err != nil {
			return err
		}
		if at.gateNorm, err = l.vector(name("post_attention_layernorm"), c.Hidden); err != nil {
			return err
		}
		for _, p := range []struct {
			to    *projection
			part  Part
			k     int
			parts []rowsOf
		}{
			{&at.qkv, PartQKV, c.Hidden, []rowsOf{
				{name("self_attn.q_proj"), heads.Query * heads.Dim}, {name("self_attn.k_proj"), heads.KV * heads.Dim},
				{name("self_attn.v_proj"), heads.KV * heads.Dim},
			}},
			{&at.o, PartO, heads.Query * heads.Dim, []rowsOf{{name("self_attn.o_proj"), c.Hidden}}},
			{&at.gateUp, PartGateUp, c.Hidden, []rowsOf{{name("mlp.gate_proj"), c.Inner}, {name("mlp.up_proj"), c.Inner}}},
			{&at.down, PartDown, c.Inner, []rowsOf{{name("mlp.down_proj"), c.Hidden}}},
		} {
			if err := l.projection(p.to, p.part, p.k, p.parts); err != nil {
				return err
			}
		}
	}
	if m.norm, err = l.vector("model.norm.weight", c.Hidden); err != nil {
		return err
	}
	if c.Tied {
		m.head = projection{part: PartHead, n: c.Vocab, k: c.Hidden, raw: m.embedding, shared: true}
		return l.prepare(&m.head)
	}
	return l.projection(&m.head, PartHead, c.Hidden, []rowsOf{{"lm_head.weight", c.Vocab}})
}

// rowsOf is a tensor that gives so many rows of a projection.
type rowsOf struct {
	name string
	rows int
}

// vector uploads one tensor that is read as it is.
func (l *loader) vector(name string, shape ...int) (kernels.Buffer, error) {
	elements := int64(1)
	for _, n := range shape {
		elements *= int64(n)
	}
	b, err := l.m.alloc(elements*int64(l.m.dtype.Size()), name)
	if err != nil {
		return nil, err
	}
	return b, l.upload(b, 0, name, shape...)
}

// alloc takes memory that is held until the model is closed.
func (m *Model) alloc(bytes int64, what string) (kernels.Buffer, error) {
	b, err := m.dev.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	m.buffers = append(m.buffers, b)
	return b, nil
}

// projection uploads the tensors, one below the other, and prepares them for the kernel.
func (l *loader) projection(p *projection, part Part, k int, parts []rowsOf) error {
	p.part, p.k = part, k
	for _, t := range parts {
		p.n += t.rows
	}
	size := int64(l.m.dtype.Size())
	var err error
	if p.raw, err = l.m.dev.Alloc(int64(p.n) * int64(k) * size); err != nil {
		return fmt.Errorf("%s: %w", parts[0].name, err)
	}
	at := int64(0)
	for _, t := range parts {
		if err := l.upload(p.raw, at, t.name, t.rows, k); err != nil {
			return err
		}
		at += int64(t.rows) * int64(k) * size
	}
	return l.prepare(p)
}

// prepare brings a projection that was uploaded into the kernel's form, and keeps the
// uploaded one only where it is still needed.
func (l *loader) prepare(p *projection) error {
	_, w, err := l.m.prepare(p, l.m.kernel)
	if err != nil {
		return err
	}
	if d, ok := w.(kernels.Detached); ok && d.Detached() && !l.options.KeepRaw {
		return p.release()
	}
	return nil
}

// upload copies a tensor to byte at of a buffer.
func (l *loader) upload(to kernels.Buffer, at int64, name string, shape ...int) error {
	t, err := l.from.Tensor(name, shape...)
	if err != nil {
		return err
	}
	data, err := t.As(l.m.dtype)
	if err != nil {
		return err
	}
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
