//go:build cuda

package decoder

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

type decoderShape struct{ hidden, inner, qkv, vocab, layers int }

var mistral7B = decoderShape{hidden: 4096, inner: 14336, qkv: 6144, vocab: 32000, layers: 32}

// decoderChain has the products of one token through a decoder, with separate weights per layer. Queries
// replace the attention's result.
type decoderChain struct {
	d       gputest.GPU
	dt      kernels.DType
	shape   decoderShape
	weights map[string][]kernels.Weights // by kind, one per layer
	norm    kernels.Operand
	x       kernels.Operand // fp32
	qkv     kernels.Operand
	act     kernels.Operand
	logits  kernels.Operand
	start   []byte // of x
}

var chainKinds = []string{"qkv", "o_proj", "gate_up", "down", "lm_head"}

func (s decoderShape) size(kind string) (n, k int) {
	switch kind {
	case "qkv":
		return s.qkv, s.hidden
	case "o_proj":
		return s.hidden, s.hidden
	case "gate_up":
		return 2 * s.inner, s.hidden
	case "down":
		return s.hidden, s.inner
	}
	return s.vocab, s.hidden
}

// newDecoderChain fills weights with normal values, and norms that keep results near 1.
func newDecoderChain(t testing.TB, d gputest.GPU, dt kernels.DType, s decoderShape, q kernels.WeightFormat) *decoderChain {
	t.Helper()
	c := &decoderChain{d: d, dt: dt, shape: s, weights: map[string][]kernels.Weights{}}
	seed := uint64(0)
	for _, kind := range chainKinds {
		n, k := s.size(kind)
		p := kernels.Task{Subject: kernels.Linear(dt, n, k), M: 1}
		for layer := range s.layers {
			if kind == "lm_head" && layer > 0 {
				break
			}
			seed++
			w := chainWeights(t, d, p, q, kind != "lm_head", seed)
			t.Cleanup(func() { w.Close() })
			c.weights[kind] = append(c.weights[kind], w)
		}
	}
	vector := func(n int, dt kernels.DType) kernels.Operand {
		return kernels.Operand{Buffer: gputest.Buffer(t, d, int64(n)*int64(dt.Size()))}
	}
	c.norm, c.x = vector(s.hidden, dt), vector(s.hidden, kernels.FP32)
	c.qkv, c.act, c.logits = vector(s.qkv, dt), vector(s.inner, dt), vector(s.vocab, dt)
	scale := make([]float64, s.hidden)
	for i := range scale {
		scale[i] = 1 / 64.0
	}
	raw := make([]byte, s.hidden*dt.Size())
	for _, err := range []error{
		kernels.Encode(dt, scale, raw), c.norm.Buffer.Upload(0, raw),
		c.x.Buffer.Fill(kernels.Normal, kernels.FP32, int64(s.hidden), 99),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c.start = make([]byte, 4*s.hidden)
	if err := c.x.Buffer.Download(0, c.start); err != nil {
		t.Fatal(err)
	}
	return c
}

func chainWeights(t testing.TB, d gputest.GPU, p kernels.Task, q kernels.WeightFormat, integers bool, seed uint64) kernels.Weights {
	t.Helper()
	if q.Bits == 0 || !integers {
		b := gputest.Buffer(t, d, int64(p.N)*int64(p.K)*int64(p.DType.Size()))
		if err := b.Fill(kernels.Normal, p.DType, int64(p.N)*int64(p.K), seed); err != nil {
			t.Fatal(err)
		}
		w, err := d.Pack(p, b)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	f, err := q.For(p.DType, p.K)
	if err != nil {
		t.Fatal(err)
	}
	product := p.WithWeights(f)
	raw, err := d.Alloc(f.RawBytes(p.N, p.K))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	subject := kernels.Product(p.DType, p.N, p.K)
	subject.Layout, subject.Weights = kernels.Transposed, f
	if err := kernels.FillWeights(raw, subject, 1, kernels.Normal, seed); err != nil {
		t.Fatal(err)
	}
	w, err := d.PackRecords(product, raw)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (c *decoderChain) product(kind string, layer int) kernels.FusedProduct {
	n, k := c.shape.size(kind)
	p := kernels.FusedProduct{N: n, K: k, DType: c.dt, Weights: c.weights[kind][layer], Epsilon: 1e-5, X: c.x, Weight: c.norm}
	switch kind {
	case "qkv":
		p.Norm, p.C = true, c.qkv
	case "o_proj":
		p.Add, p.A = true, c.qkv
	case "gate_up":
		p.Norm, p.Gated, p.C = true, true, c.act
	case "down":
		p.Add, p.A = true, c.act
	case "lm_head":
		p.Norm, p.C = true, c.logits
	}
	return p
}

func (c *decoderChain) one(t testing.TB, kind string, layer int, plan fusePlan) kernels.Launch {
	t.Helper()
	l, err := Operations{c.d.Device}.fuse(c.product(kind, layer), plan)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// bindChains binds the products from one attention to the next as one launch each.
func (c *decoderChain) bindChains(t testing.TB) []kernels.Launch {
	t.Helper()
	out := []kernels.Launch{c.one(t, "qkv", 0, fusedPlan)}
	for layer := range c.shape.layers {
		ps := []kernels.FusedProduct{c.product("o_proj", layer), c.product("gate_up", layer), c.product("down", layer)}
		if layer+1 < c.shape.layers {
			ps = append(ps, c.product("qkv", layer+1))
		}
		l, err := Operations{c.d.Device}.FuseChain(ps)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l)
	}
	return append(out, c.one(t, "lm_head", 0, fusedPlan))
}

func (c *decoderChain) bind(t testing.TB, plan fusePlan) []kernels.Launch {
	var out []kernels.Launch
	for layer := range c.shape.layers {
		for _, kind := range chainKinds[:4] {
			out = append(out, c.one(t, kind, layer, plan))
		}
	}
	return append(out, c.one(t, "lm_head", 0, plan))
}

func (c *decoderChain) bytes() (total int64) {
	for _, ws := range c.weights {
		for _, w := range ws {
			total += w.Bytes()
		}
	}
	return total
}

func (c *decoderChain) reset(t testing.TB) {
	t.Helper()
	if err := c.x.Buffer.Upload(0, c.start); err != nil {
		t.Fatal(err)
	}
}

func (c *decoderChain) state(t testing.TB) []byte {
	t.Helper()
	var all []byte
	for _, o := range []kernels.Operand{c.x, c.qkv, c.act, c.logits} {
		b := make([]byte, o.Buffer.Bytes())
		if err := o.Buffer.Download(0, b); err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

func registersPlan(a planning.Arch, p kernels.FusedProduct, at fusedAddresses) (planning.Call, string) {
	return fusedCall(a, p, at), "registers"
}

func ringPlan(stages, early, blocks int) fusePlan {
	return func(a planning.Arch, p kernels.FusedProduct, at fusedAddresses) (planning.Call, string) {
		r, ok := ringFor(a, p)
		if !ok {
			return fusedPlan(a, p, at)
		}
		r = ring{stages: stages, early: early, blocks: blocks}
		for ; ringShared(p, r.stages) > (a.SharedMax+1024)/blocks-1024; r.stages-- {
		}
		return r.call(a, p, at), fmt.Sprint(r)
	}
}

func secondsOf(t testing.TB, d gputest.GPU, launches []kernels.Launch, n int) float64 {
	t.Helper()
	var all []float64
	for range 7 {
		span, err := d.Execute(context.Background(), launches, n)
		if err != nil {
			t.Fatal(err)
		}
		if span.Disturbance != (kernels.Disturbance{}) {
			t.Log(span.Disturbance)
		}
		all = append(all, span.Seconds/float64(n))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// repeats checks that tokens computed in a block, and in the graph g, have the bits of one launch at a time; it closes g.
func (c *decoderChain) repeats(t *testing.T, d gputest.GPU, launches []kernels.Launch, g kernels.Launch, tokens, rounds int) {
	t.Helper()
	run := func(launches []kernels.Launch, n int) {
		if _, err := d.Execute(context.Background(), launches, n); err != nil {
			t.Fatal(err)
		}
	}
	run(launches, len(launches)) // first-time launches run twice
	c.reset(t)
	for range tokens {
		for _, l := range launches {
			run([]kernels.Launch{l}, 1)
		}
	}
	want := c.state(t)
	for round := range rounds {
		c.reset(t)
		run(launches, tokens*len(launches))
		if !bytes.Equal(want, c.state(t)) {
			t.Fatalf("round %d: a block gives other bits than its launches", round)
		}
		c.reset(t)
		run([]kernels.Launch{g}, tokens)
		if !bytes.Equal(want, c.state(t)) {
			t.Fatalf("round %d: a graph gives other bits than its launches", round)
		}
	}
	if err := g.(interface{ Close() error }).Close(); err != nil {
		t.Error(err)
	}
}

// report prints the time of a graph of launches that read some bytes, and returns it.
func (c *decoderChain) report(b *testing.B, d gputest.GPU, ceilings kernels.Ceilings, name string, launches []kernels.Launch, bytes int64,
	n int) float64 {
	b.Helper()
	g, err := d.Graph(launches)
	if err != nil {
		b.Fatal(err)
	}
	c.reset(b)
	seconds := secondsOf(b, d, []kernels.Launch{g}, n)
	rate := float64(bytes) / seconds
	fmt.Fprintf(os.Stderr, "%-50s %8.1f us  %6.2f us a launch  %.3f TB/s  %.1f%% of read, %.1f%% of copy\n", name, seconds*1e6,
		seconds*1e6/float64(len(launches)), rate*1e-12, 100*rate/ceilings.ReadBandwidth, 100*rate/ceilings.CopyBandwidth)
	if err := g.(interface{ Close() error }).Close(); err != nil {
		b.Error(err)
	}
	return seconds
}

// BenchmarkDecodeChain measures the products of a token of Mistral-7B: 14.2 GB of plain weights, or 3.9 GB
// with 4-bit layers. It runs them in one graph, and each kind of product back to back over all layers.
func BenchmarkDecodeChain(b *testing.B) {
	int4 := kernels.IntegerWeights(4, 128, false)

	d := gputest.First(b)
	ceilings, err := d.Ceilings(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "read %.3f TB/s, copy %.3f TB/s\n", ceilings.ReadBandwidth*1e-12, ceilings.CopyBandwidth*1e-12)
	for _, of := range []struct {
		dt kernels.DType
		q  kernels.WeightFormat
	}{{kernels.FP16, kernels.WeightFormat{}}, {kernels.BF16, kernels.WeightFormat{}}, {kernels.FP16, int4}, {kernels.BF16, int4}} {
		dt := of.dt
		if of.q.Bits > 0 && d.Arch().CC != 90 {
			continue
		}
		b.Run(fmt.Sprintf("%s/%v", dt, of.q), func(b *testing.B) {
			c := newDecoderChain(b, d, dt, mistral7B, of.q)
			report := func(name string, launches []kernels.Launch, bytes int64, n int) float64 {
				return c.report(b, d, ceilings, name, launches, bytes, n)
			}
			for _, kind := range chainKinds {
				var launches []kernels.Launch
				var bytes int64
				for layer, w := range c.weights[kind] {
					launches = append(launches, c.one(b, kind, layer, fusedPlan))
					bytes += w.Bytes()
				}
				report(fmt.Sprintf("%s %v %s, %s", dt, of.q, kind, launches[0].Label()), launches, bytes, 4)
			}
			seconds := report(fmt.Sprintf("%s %v chain without attention", dt, of.q), c.bind(b, fusedPlan), c.bytes(), 20)
			if of.q.Bits > 0 {
				report(fmt.Sprintf("%s %v chain in one launch a layer", dt, of.q), c.bindChains(b), c.bytes(), 20)
			}
			b.ReportMetric(seconds*1e3, "ms/token")
			b.ReportMetric(1/seconds, "tokens/s")
			b.ReportMetric(0, "ns/op") // set-up time has no meaning
		})
	}
}
