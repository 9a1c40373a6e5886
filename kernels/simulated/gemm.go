package simulated

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// gemm is a kernel of a session.
type gemm struct {
	device *Device
	name   string
}

func (g *gemm) Name() string     { return g.name }
func (g *gemm) Describe() string { return "simulated kernel of known time" }

// Supports refuses all but the machine's product.
func (g *gemm) Supports(p kernels.Problem) error {
	cfg := g.device.machine.cfg
	if p.DType != cfg.DType || p.N != cfg.N || p.K != cfg.K {
		return &kernels.Unsupported{Kernel: g.name, DType: p.DType, Reason: fmt.Sprintf("this machine knows %s n%d k%d alone", cfg.DType, cfg.N, cfg.K)}
	}
	return nil
}

// PrepareWeights implements [kernels.Gemm]: B is read as it is.
func (g *gemm) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	if err := g.Supports(p); err != nil {
		return nil, err
	}
	own, ok := raw.(*buffer)
	if need := int64(p.N) * int64(p.K) * int64(p.DType.Size()); !ok || own.bytes < need {
		return nil, fmt.Errorf("%s: weights need a buffer of this device with %d bytes", g.name, need)
	}
	return &weights{own}, nil
}

// Bind implements [kernels.Gemm].
func (g *gemm) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	if err := g.Supports(p); err != nil {
		return nil, err
	}
	if _, ok := w.(*weights); !ok {
		return nil, fmt.Errorf("%s: weights were prepared by another kernel", g.name)
	}
	in, okA := a.Buffer.(*buffer)
	out, okC := c.Buffer.(*buffer)
	if !okA || !okC {
		return nil, fmt.Errorf("%s: %v: operands are not on this device", g.name, p.Shape)
	}
	for _, o := range []struct {
		name       string
		have, need int64
	}{
		{"A", in.bytes, (int64(a.Offset) + int64(p.M)*int64(p.K)) * int64(p.DType.Size())},
		{"C", out.bytes, (int64(c.Offset) + int64(p.M)*int64(p.N)) * int64(p.DType.Output().Size())},
	} {
		if o.need > o.have {
			return nil, fmt.Errorf("%s: %v: %s needs %d bytes, its buffer has %d", g.name, p.Shape, o.name, o.need, o.have)
		}
	}
	l := &launch{device: g.device, row: g.device.row(g.name, p.M)}
	if size := g.device.machine.cfg.Allocation; size > 0 {
		l.placed = size * normal(mix(l.row.id, in.place, out.place))
	}
	return l, nil
}

// normal is a standard normal number that follows from a hash.
func normal(h uint64) float64 {
	u := (float64(h>>11) + 0.5) / (1 << 53)
	return math.Sqrt2 * math.Erfinv(2*u-1)
}

type weights struct{ raw *buffer }

func (w *weights) Bytes() int64 { return w.raw.bytes }
func (w *weights) Close() error { return nil }

type launch struct {
	device *Device
	row    *row
	placed float64 // what the operands' places do to the log of its time
}

func (l *launch) Label() string { return l.row.label }

// buffer is memory whose content nothing reads but Download.
type buffer struct {
	device  *Device
	bytes   int64
	place   uint64
	content []byte // nil while it is all zeros
	closed  bool
}

func (b *buffer) Bytes() int64 { return b.bytes }

// Fill leaves the content as it is: the kernels do not read it.
func (b *buffer) Fill(_ kernels.Distribution, d kernels.DType, n int64, _ uint64) error {
	if size := int64(d.Size()); size == 0 || n < 0 || n > b.bytes/size {
		return fmt.Errorf("fill of %d elements of %s into %d bytes", n, d, b.bytes)
	}
	return nil
}

// within brings the content into being and checks that [off, off+n) lies in it.
func (b *buffer) within(off int64, n int) error {
	if off < 0 || off > b.bytes || int64(n) > b.bytes-off {
		return fmt.Errorf("access to %d bytes at %d of a buffer of %d", n, off, b.bytes)
	}
	if b.content == nil {
		b.content = make([]byte, b.bytes)
	}
	return nil
}

func (b *buffer) Upload(off int64, src []byte) error {
	if err := b.within(off, len(src)); err != nil {
		return err
	}
	copy(b.content[off:], src)
	return nil
}

func (b *buffer) Download(off int64, dst []byte) error {
	if err := b.within(off, len(dst)); err != nil {
		return err
	}
	copy(dst, b.content[off:])
	return nil
}

func (b *buffer) Close() error {
	if b.closed {
		return fmt.Errorf("buffer of %d bytes closed twice", b.bytes)
	}
	b.closed = true
	b.device.memory -= b.bytes
	return nil
}
