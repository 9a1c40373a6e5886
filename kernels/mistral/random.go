package mistral

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// Random makes a model of a shape with random weights, on the device: for measurements of models that no disk has to hold. The
// weights are normal with variance 1, quantized ones uniform with that variance. Those of norms are 1/sqrt(Hidden), which keeps
// products of normalized rows near 1. Options.Weights nil means unquantized.
func Random(ctx context.Context, d kernels.Device, c checkpoint.Config, o Options) (m *Model, err error) {
	if c.Quantization != nil {
		return nil, errors.New("random weights: the shape has quantized weights, expected none")
	}
	l := &loader{ctx: ctx, options: o, drawn: &drawnWeights{raw: map[rawShape]kernels.Buffer{}}}
	m, err = load(d, c, l)
	if closed := l.drawn.close(); closed != nil {
		if m != nil {
			closed = errors.Join(closed, m.Close())
		}
		return nil, errors.Join(err, closed)
	}
	return m, err
}

// drawnWeights holds a buffer of raw quantized weights of each shape. Kernels copy them into their own form, so one is enough,
// and its scales are written once. nil has none.
type drawnWeights struct {
	raw  map[rawShape]kernels.Buffer
	seed uint64
}

type rawShape struct {
	n, k   int
	format kernels.WeightFormat
}

func (p *projection) shape() rawShape { return rawShape{p.n, p.k, p.format} }

// keeps takes back a buffer that the projection's kernel no longer reads.
func (w *drawnWeights) keeps(p *projection) bool {
	if w == nil || p.raw == nil || w.raw[p.shape()] != p.raw {
		return false
	}
	p.raw = nil
	return true
}

// gives leaves a buffer to the projection, because its kernel reads it.
func (w *drawnWeights) gives(p *projection) {
	if w != nil && w.raw[p.shape()] == p.raw {
		delete(w.raw, p.shape())
	}
}

func (w *drawnWeights) close() error {
	var errs []error
	for _, b := range w.raw {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

func (w *drawnWeights) next() uint64 {
	w.seed++
	return w.seed
}

// drawVector fills a norm's weights, of one dimension, or an embedding.
func (l *loader) drawVector(b kernels.Buffer, shape ...int) error {
	dtype := l.m.dtype
	defer l.drew(b.Bytes())
	if len(shape) > 1 {
		return b.Fill(kernels.Normal, dtype, b.Bytes()/int64(dtype.Size()), l.drawn.next())
	}
	values := make([]float64, shape[0])
	for i := range values {
		values[i] = 1 / math.Sqrt(float64(shape[0]))
	}
	raw := make([]byte, len(values)*dtype.Size())
	if err := kernels.Encode(dtype, values, raw); err != nil {
		return err
	}
	return b.Upload(0, raw)
}

// draw fills a projection's raw weights.
func (l *loader) draw(p *projection) (err error) {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	bytes := p.bytes(l.m.dtype)
	defer l.drew(bytes)
	if p.plain() {
		if p.raw, err = l.m.dev.Alloc(bytes); err != nil {
			return fmt.Errorf("%s: %w", p.part, err)
		}
		return p.raw.Fill(kernels.Normal, l.m.dtype, p.elements(), l.drawn.next())
	}
	at := p.task(l.m.dtype, 1).Raw()
	if p.raw = l.drawn.raw[p.shape()]; p.raw == nil {
		if p.raw, err = l.m.dev.Alloc(at.Bytes); err != nil {
			return fmt.Errorf("%s: %w", p.part, err)
		}
		l.drawn.raw[p.shape()] = p.raw
		if err := l.drawScales(p, at); err != nil {
			return err
		}
	}
	// Bits of normal numbers are uneven in their exponents only, and every pattern of them is a valid code.
	return p.raw.Fill(kernels.Normal, kernels.FP32, at.Scales/4, l.drawn.next())
}

// drawScales writes scales that give uniform codes the variance 1, and zero points in the middle.
func (l *loader) drawScales(p *projection, at kernels.RawWeights) error {
	f := p.format
	groups := p.n * (p.k / f.GroupK)
	values := make([]float64, groups)
	for i := range values {
		values[i] = math.Sqrt(12) / float64(int(1)<<f.Bits)
	}
	raw := make([]byte, groups*f.Scale.Size())
	if err := kernels.Encode(f.Scale, values, raw); err != nil {
		return err
	}
	if err := p.raw.Upload(at.Scales, raw); err != nil || at.Zeros == 0 {
		return err
	}
	middle := byte(1 << 7)
	if f.ZeroPointBits == 4 {
		middle = 0x88
	}
	return p.raw.Upload(at.Zeros, bytes.Repeat([]byte{middle}, int(at.Bytes-at.Zeros)))
}

func (l *loader) drew(bytes int64) {
	l.done += bytes
	if l.options.Progress != nil {
		l.options.Progress(min(l.done, l.total), l.total)
	}
}
