package kerneltest

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/lazymemory"
)

// gemm is a simulated kernel.
type gemm struct {
	device *Device
	cfg    GemmConfig
}

// chooser is a simulated kernel that has other choices than its first.
type chooser struct{ *gemm }

var _ kernels.Candidates = (*chooser)(nil)
var _ kernels.Batcher = (*gemm)(nil)
var _ kernels.ManyTellers = (*gemm)(nil)

// taker is a simulated kernel that takes algorithms by their attributes.
type taker struct{ *gemm }

var _ kernels.AlgorithmTaker = (*taker)(nil)

// WithAlgorithm implements kernels.AlgorithmTaker. One that is not declared supports nothing.
func (g *taker) WithAlgorithm(a kernels.Algorithm) kernels.Gemm {
	cfg, ok := g.cfg.Algorithms[a]
	if !ok {
		cfg = GemmConfig{DTypes: []kernels.DType{}, Cost: g.cfg.Cost}
	}
	cfg.Name = kernels.AlgorithmName(g.cfg.Name, a)
	return &gemm{device: g.device, cfg: cfg}
}

// Candidate implements kernels.Candidates. Past the declared ones there is a
// kernel that supports nothing.
func (g *chooser) Candidate(n int) kernels.Gemm {
	cfg := GemmConfig{DTypes: []kernels.DType{}, Cost: g.cfg.Cost}
	if n <= len(g.cfg.Candidates) {
		cfg = g.cfg.Candidates[n-1]
	}
	cfg.Name = kernels.CandidateName(g.cfg.Name, n)
	return &gemm{device: g.device, cfg: cfg}
}

func (g *gemm) Name() string     { return g.cfg.Name }
func (g *gemm) Describe() string { return "simulated kernel of declared cost" }

func (g *gemm) Supports(p kernels.Problem) error { return g.supports(p, 1) }

func (g *gemm) supports(p kernels.Problem, products int) error {
	if g.cfg.DTypes != nil && !slices.Contains(g.cfg.DTypes, p.DType) {
		return &kernels.Unsupported{Kernel: g.cfg.Name, DType: p.DType, Reason: "it was not declared for this simulation"}
	}
	if g.cfg.MaxM > 0 && p.M > g.cfg.MaxM {
		return &kernels.Unsupported{Kernel: g.cfg.Name, DType: p.DType, Reason: fmt.Sprintf("M is %d, at most %d is declared for this simulation", p.M, g.cfg.MaxM)}
	}
	if g.cfg.Arithmetic && float64(products)*float64(p.M)*float64(p.N)*float64(p.K) > mostArithmetic {
		return &kernels.Unsupported{Kernel: g.cfg.Name, DType: p.DType, Reason: fmt.Sprintf("the simulation computes its products for real, up to %d multiplications", mostArithmetic)}
	}
	return nil
}

// mostArithmetic bounds the multiplications of a product that is computed for real: each takes a nanosecond, and a sweep repeats it.
const mostArithmetic = 1 << 24

func (g *gemm) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	return g.PrepareBatch(kernels.Batch{Problem: p, Products: 1}, raw)
}

// SupportsBatch implements [kernels.Batcher]: what is supported of one product is of several.
func (g *gemm) SupportsBatch(b kernels.Batch) error { return g.supports(b.Problem, b.Products) }

// PrepareBatch implements [kernels.Batcher].
func (g *gemm) PrepareBatch(p kernels.Batch, raw kernels.Buffer) (kernels.Weights, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	b, ok := raw.(*buffer)
	if !ok {
		return nil, fmt.Errorf("%s: weights are in a buffer of another device", g.cfg.Name)
	}
	rows, ld := p.K, p.LDB
	if p.BLayout == kernels.Transposed {
		rows = p.N
	}
	need := (int64(p.Products-1)*int64(p.StrideB) + int64(rows)*int64(ld)) * int64(p.DType.Size())
	if b.Bytes() < need {
		return nil, fmt.Errorf("%s: weights need %d bytes, the buffer has %d", g.cfg.Name, need, b.Bytes())
	}
	if err := g.device.idle("prepare weights"); err != nil {
		return nil, err
	}
	w := &weights{device: g.device, raw: b, bytes: need}
	if g.cfg.Packs {
		if err := g.device.take(need); err != nil {
			return nil, err
		}
		w.packed, w.seconds = true, g.cfg.PackTime.Seconds()
		g.device.Advance(g.cfg.PackTime)
	}
	g.device.mu.Lock()
	g.device.weights++
	w.id = g.device.weights
	g.device.mu.Unlock()
	return w, nil
}

// Choice implements kernels.ChoiceTeller.
func (g *gemm) Choice(p kernels.Problem) (kernels.Choice, error) {
	p, err := p.Normalized()
	if err != nil {
		return kernels.Choice{}, err
	}
	if err := g.Supports(p); err != nil {
		return kernels.Choice{}, err
	}
	switch {
	case g.cfg.Choice != nil:
		return g.cfg.Choice(p)
	case g.cfg.Label == nil && g.cfg.Tiling == nil:
		return kernels.Choice{}, fmt.Errorf("kernel %s does not tell what it would run", g.cfg.Name)
	}
	var c kernels.Choice
	if g.cfg.Label != nil {
		c.Label = g.cfg.Label(p)
	}
	if g.cfg.Tiling != nil {
		c.Tiling = g.cfg.Tiling(p)
	}
	return c, nil
}

// Tellers implements kernels.ManyTellers: a device that tells of more than a few products has
// settings that goroutines may use at once.
func (g *gemm) Tellers(n int) ([]kernels.ChoiceTeller, error) {
	return slices.Repeat([]kernels.ChoiceTeller{g}, n), nil
}

// Packs implements kernels.Packer.
func (g *gemm) Packs(kernels.Problem) bool { return g.cfg.Packs }

func (g *gemm) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	l, err := g.bind(kernels.Batch{Problem: p, Products: 1}, a, w, c)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// BindBatch implements [kernels.Batcher]: the batch costs what its products do one by one.
func (g *gemm) BindBatch(b kernels.Batch, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	l, err := g.bind(b, a, w, c)
	if err != nil {
		return nil, err
	}
	l.info.Products = b.Products
	return l, nil
}

func (g *gemm) bind(b kernels.Batch, a kernels.Operand, w kernels.Weights, c kernels.Operand) (*launch, error) {
	b, err := b.Normalized()
	if err != nil {
		return nil, err
	}
	p, behind := b.Problem, int64(b.Products-1)
	if err := g.Supports(p); err != nil {
		return nil, err
	}
	own, ok := w.(*weights)
	if !ok {
		return nil, fmt.Errorf("%s: weights were prepared by another kernel", g.cfg.Name)
	}
	for _, o := range []struct {
		name string
		op   kernels.Operand
		last int64
		size int
	}{
		{"A", a, behind*int64(b.StrideA) + int64(p.M-1)*int64(p.LDA) + int64(p.K), p.DType.Size()},
		{"C", c, behind*int64(b.StrideC) + int64(p.M-1)*int64(p.LDC) + int64(p.N), p.DType.Output().Size()},
	} {
		if o.op.Buffer == nil || o.op.Offset < 0 {
			return nil, fmt.Errorf("%s: %v: %s has no buffer or a negative offset", g.cfg.Name, p.Shape, o.name)
		}
		if need := (int64(o.op.Offset) + o.last) * int64(o.size); need > o.op.Buffer.Bytes() {
			return nil, fmt.Errorf("%s: %v: %s needs %d bytes, its buffer has %d", g.cfg.Name, p.Shape, o.name, need, o.op.Buffer.Bytes())
		}
	}
	if g.cfg.BindError != nil {
		if err := g.cfg.BindError(p); err != nil {
			return nil, err
		}
	}
	l := &launch{device: g.device, gemm: g, batch: b, weights: own, a: a, c: c, info: LaunchInfo{
		Kernel: g.cfg.Name, Problem: p, Weights: own.id, AOffset: a.Offset, COffset: c.Offset,
	}}
	l.cost = func() float64 { return float64(b.Products) * g.cfg.Cost(p) }
	if g.cfg.Label != nil {
		l.label = g.cfg.Label(p)
	}
	if g.cfg.Tiling != nil {
		l.tiling = g.cfg.Tiling(p)
	}
	return l, nil
}

type weights struct {
	device *Device
	raw    *buffer
	bytes  int64
	packed bool
	// seconds is how long packing took.
	seconds float64
	id      int
}

// Packing implements kernels.Packed.
func (w *weights) Packing() (seconds float64, ok bool) { return w.seconds, w.packed }

func (w *weights) Bytes() int64 { return w.bytes }
func (w *weights) Close() error {
	if w.packed {
		w.device.release(w.bytes)
		w.packed = false
	}
	return w.device.idle("free weights")
}

type launch struct {
	device  *Device
	cost    func() float64
	gemm    *gemm         // nil where it is no product
	move    func() error  // of a copy, else nil
	batch   kernels.Batch // of one product where it is no batch
	weights *weights
	a, c    kernels.Operand
	info    LaunchInfo
	label   string
	tiling  kernels.Tiling
}

func (l *launch) Label() string { return l.label }

// Tiling implements kernels.TilingTeller.
func (l *launch) Tiling() kernels.Tiling { return l.tiling }

// run fails when it was told to, and computes the product when it shall.
func (l *launch) run() error {
	if l.move != nil {
		return l.move()
	}
	if l.gemm == nil {
		return nil
	}
	p := l.info.Problem
	if f := l.gemm.cfg.ExecuteError; f != nil {
		if err := f(p); err != nil {
			return err
		}
	}
	if !l.gemm.cfg.Arithmetic {
		return nil
	}
	for i := range l.batch.Products {
		if err := l.multiply(i); err != nil {
			return err
		}
	}
	return nil
}

// multiply computes one product.
func (l *launch) multiply(product int) error {
	p := l.batch.Problem
	rows, cols := p.K, p.N
	if p.BLayout == kernels.Transposed {
		rows, cols = p.N, p.K
	}
	from := func(o kernels.Operand, stride int) kernels.Operand {
		return kernels.Operand{Buffer: o.Buffer, Offset: o.Offset + product*stride}
	}
	a, err := matrix(from(l.a, l.batch.StrideA), p.M, p.K, p.LDA, p.DType)
	if err != nil {
		return err
	}
	b, err := matrix(from(kernels.Operand{Buffer: l.weights.raw}, l.batch.StrideB), rows, cols, p.LDB, p.DType)
	if err != nil {
		return err
	}
	c := from(l.c, l.batch.StrideC)
	out := p.DType.Output()
	row, encoded := make([]float64, p.N), make([]byte, p.N*out.Size())
	for i := range p.M {
		for j := range p.N {
			var sum float64
			for k := range p.K {
				if p.BLayout == kernels.Transposed {
					sum += a[i*p.K+k] * b[j*cols+k]
				} else {
					sum += a[i*p.K+k] * b[k*cols+j]
				}
			}
			if f := l.gemm.cfg.Sum; f != nil {
				sum = f(l.info.Problem, sum)
			}
			row[j] = sum
		}
		if err := kernels.Encode(out, row, encoded); err != nil {
			return err
		}
		if err := c.Buffer.Upload(int64(c.Offset+i*p.LDC)*int64(out.Size()), encoded); err != nil {
			return err
		}
	}
	return nil
}

// matrix reads rows×cols values with leading dimension ld as float64, tight.
func matrix(o kernels.Operand, rows, cols, ld int, d kernels.DType) ([]float64, error) {
	raw, out := make([]byte, cols*d.Size()), make([]float64, rows*cols)
	for r := range rows {
		if err := o.Buffer.Download(int64(o.Offset+r*ld)*int64(d.Size()), raw); err != nil {
			return nil, err
		}
		if err := kernels.Decode(d, raw, out[r*cols:(r+1)*cols]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// buffer is memory that is freed by its device.
type buffer struct {
	lazymemory.Memory
	device *Device
}

func (b *buffer) Fill(dist kernels.Distribution, d kernels.DType, n int64, seed uint64) error {
	if err := b.device.idle("fill"); err != nil {
		return err
	}
	if err := b.CheckFill(d, n); err != nil {
		return err
	}
	return b.FillWith(func(dst []byte) error {
		rng := rand.New(rand.NewPCG(seed, 0))
		v := make([]float64, n)
		for i := range v {
			switch {
			case dist == kernels.Integers:
				v[i] = float64(rng.IntN(9) - 4)
			case dist == kernels.Zeros:
			case d == kernels.INT8:
				v[i] = rng.NormFloat64() * 32
			default:
				v[i] = rng.NormFloat64()
			}
		}
		return kernels.Encode(d, v, dst[:n*int64(d.Size())])
	})
}

func (b *buffer) Close() error {
	if err := b.Memory.Close(); err != nil {
		return err
	}
	b.device.release(b.Bytes())
	return b.device.idle("free memory")
}
