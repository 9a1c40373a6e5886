package simulated

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/lazymemory"
)

// gemm is a kernel of a session.
type gemm struct {
	device *Device
	name   string
}

func (g *gemm) Name() string     { return g.name }
func (g *gemm) Describe() string { return "simulated kernel of known time" }

var _ kernels.Batcher = (*gemm)(nil)

// Supports refuses all but the machine's product, and that too where the machine computes batches of it.
func (g *gemm) Supports(p kernels.Problem) error { return g.supports(p, 0) }

// SupportsBatch implements [kernels.Batcher]: it refuses all but batches of as many products
// as the machine computes.
func (g *gemm) SupportsBatch(b kernels.Batch) error { return g.supports(b.Problem, b.Products) }

func (g *gemm) supports(p kernels.Problem, products int) error {
	cfg := g.device.machine.cfg
	if p.DType != cfg.DType || p.N != cfg.N || p.K != cfg.K || products != cfg.Products {
		only := fmt.Sprintf("%s n%d k%d", cfg.DType, cfg.N, cfg.K)
		if cfg.Products > 0 {
			only += fmt.Sprintf(" x%d", cfg.Products)
		}
		return &kernels.Unsupported{Kernel: g.name, DType: p.DType, Reason: "this machine knows only " + only}
	}
	return nil
}

// PrepareWeights implements [kernels.Gemm]: B is read as it is.
func (g *gemm) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	if err := g.Supports(p); err != nil {
		return nil, err
	}
	return g.prepare(kernels.Batch{Problem: p, Products: 1}, raw)
}

// PrepareBatch implements [kernels.Batcher].
func (g *gemm) PrepareBatch(b kernels.Batch, raw kernels.Buffer) (kernels.Weights, error) {
	if err := g.SupportsBatch(b); err != nil {
		return nil, err
	}
	return g.prepare(b, raw)
}

func (g *gemm) prepare(b kernels.Batch, raw kernels.Buffer) (kernels.Weights, error) {
	own, ok := raw.(*buffer)
	b, err := b.Normalized()
	if err != nil {
		return nil, err
	}
	need := int64(b.Products) * int64(b.StrideB) * int64(b.DType.Size())
	if !ok || own.Bytes() < need {
		return nil, fmt.Errorf("%s: weights need a buffer of this device with %d bytes", g.name, need)
	}
	return &weights{own}, nil
}

// Bind implements [kernels.Gemm].
func (g *gemm) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := g.Supports(p); err != nil {
		return nil, err
	}
	return g.bind(kernels.Batch{Problem: p, Products: 1}, a, w, c)
}

// BindBatch implements [kernels.Batcher].
func (g *gemm) BindBatch(b kernels.Batch, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := g.SupportsBatch(b); err != nil {
		return nil, err
	}
	return g.bind(b, a, w, c)
}

func (g *gemm) bind(b kernels.Batch, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	b, err := b.Normalized()
	if err != nil {
		return nil, err
	}
	if _, ok := w.(*weights); !ok {
		return nil, fmt.Errorf("%s: weights were prepared by another kernel", g.name)
	}
	in, okA := a.Buffer.(*buffer)
	out, okC := c.Buffer.(*buffer)
	if !okA || !okC {
		return nil, fmt.Errorf("%s: %v: operands are not on this device", g.name, b.Shape)
	}
	// bytes is what an operand takes up to the last element of its last row.
	bytes := func(offset, stride, ld, cols int, d kernels.DType) int64 {
		last := int64(b.Products-1)*int64(stride) + int64(b.M-1)*int64(ld)
		return (int64(offset) + last + int64(cols)) * int64(d.Size())
	}
	for _, o := range []struct {
		name       string
		have, need int64
	}{
		{"A", in.Bytes(), bytes(a.Offset, b.StrideA, b.LDA, b.K, b.DType)},
		{"C", out.Bytes(), bytes(c.Offset, b.StrideC, b.LDC, b.N, b.DType.Output())},
	} {
		if o.need > o.have {
			return nil, fmt.Errorf("%s: %v: %s needs %d bytes, its buffer has %d", g.name, b.Shape, o.name, o.need, o.have)
		}
	}
	return g.device.launch(g.name, b.M, in, out), nil
}

// launch is that of an M of a kernel on operands.
func (d *Device) launch(kernel string, m int, in, out *buffer) *launch {
	l := &launch{device: d, row: d.row(kernel, m)}
	if size := d.machine.cfg.Allocation; size > 0 {
		l.placed = size * normal(mix(l.row.id, in.place, out.place))
	}
	return l
}

var _ kernels.ChoiceTeller = (*gemm)(nil)

// Choice implements [kernels.ChoiceTeller].
func (g *gemm) Choice(p kernels.Problem) (kernels.Choice, error) {
	if err := g.Supports(p); err != nil {
		return kernels.Choice{}, err
	}
	if err := p.Shape.Validate(); err != nil {
		return kernels.Choice{}, err
	}
	r := g.device.row(g.name, p.M)
	return kernels.Choice{Label: r.label, Tiling: r.tiling}, nil
}

// normal is a standard normal number that follows from a hash.
func normal(h uint64) float64 {
	u := (float64(h>>11) + 0.5) / (1 << 53)
	return math.Sqrt2 * math.Erfinv(2*u-1)
}

type weights struct{ raw *buffer }

func (w *weights) Bytes() int64 { return w.raw.Bytes() }
func (w *weights) Close() error { return nil }

type launch struct {
	device *Device
	row    *row
	placed float64 // what the operands' places do to the log of its time
}

func (l *launch) Label() string { return l.row.label }

// Tiling implements [kernels.TilingTeller].
func (l *launch) Tiling() kernels.Tiling { return l.row.tiling }

// buffer is memory whose content nothing reads but Download.
type buffer struct {
	lazymemory.Memory
	device *Device
	place  uint64
}

// Fill leaves the content as it is: the kernels do not read it.
func (b *buffer) Fill(_ kernels.Distribution, d kernels.DType, n int64, _ uint64) error {
	return b.CheckFill(d, n)
}

// Close implements [kernels.Buffer].
func (b *buffer) Close() error {
	if err := b.Memory.Close(); err != nil {
		return err
	}
	b.device.memory -= b.Bytes()
	return nil
}
