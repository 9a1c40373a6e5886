package cpu

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// BenchmarkFusedLayer compares fused products with the decoder's separate passes, for products of a layer of TinyLlama and
// Mistral-7B, as BenchmarkFusedLayer/model/weights/product. After gate_up_proj the pass is the gated unit. After o_proj and
// down_proj it is the sum with the residual stream, which the norm computes on its way. Each sample has all launches, the norm
// included, and weights come from memory. Times are relative to separate launches, below 1 is faster:
//
//   - fused: the kernel of fused products, in 16 bits; a residual is 16 bits wide, so a decoder that uses it rounds its stream
//   - bound: the product without its epilogue, which no fused kernel can beat by more than noise
//
// One iteration is one round of all.
func BenchmarkFusedLayer(b *testing.B) {
	for _, model := range []struct {
		name                 string
		hidden, inner, width int
	}{{"tinyllama", 2048, 5632, 2048}, {"mistral-7b", 4096, 14336, 4096}} {
		for _, format := range []string{"plain", "int4:128"} {
			for _, p := range []struct {
				name string
				n, k int
				of   kernels.Epilogue
			}{{"gate_up_proj", 2 * model.inner, model.hidden, kernels.Gated}, {"o_proj", model.hidden, model.width, kernels.Residual},
				{"down_proj", model.hidden, model.inner, kernels.Residual}} {
				b.Run(fmt.Sprintf("%s/%s/%s", model.name, format, p.name), func(b *testing.B) {
					benchmarkFusedLayer(b, kernels.Linear(kernels.FP16, p.n, p.k), p.of, format)
				})
			}
		}
	}
}

// ways are the ways to compute a product and what follows it; the first is the decoder's.
var ways = []string{"separate", "fused", "bound"}

// fusedLayer holds the weights of one product in both of its forms.
type fusedLayer struct {
	*workload
	product, fused kernels.Subject
	weights        map[kernels.Operation][]kernels.Weights
}

func benchmarkFusedLayer(b *testing.B, s kernels.Subject, of kernels.Epilogue, format string) {
	weights, err := kernels.ParseWeights(format)
	if err == nil {
		s.Weights, err = weights.For(s.DType, s.K)
	}
	if err != nil {
		b.Fatal(err)
	}
	l := &fusedLayer{workload: newWorkload(b, openBench(b)), product: s, fused: s, weights: map[kernels.Operation][]kernels.Weights{}}
	l.fused.Operation, l.fused.Epilogue = s.Operation.WithEpilogue(), of
	var all []*kerneltest.Series
	for _, m := range []int{1, 16, 128, 512} {
		for _, way := range ways {
			if way == "fused" && s.Quantized() {
				continue // fused products have plain weights
			}
			sample, err := l.sampler(way, m)
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, &kerneltest.Series{Name: fmt.Sprintf("%s/m%d", way, m), Sample: sample})
		}
	}
	kerneltest.MeasureRounds(b, all)
	fmt.Fprintf(os.Stderr, "\n%s, %s, %d threads\n", b.Name(), l.d.Spec().Name, l.d.Threads())
	var separate *kerneltest.Series
	for _, a := range all {
		if strings.HasPrefix(a.Name, ways[0]) {
			separate = a
			fmt.Fprintf(os.Stderr, "  %-14s %10.1f us\n", a.Name, stats.Median(a.Samples)*1e6)
			continue
		}
		mid, low, high := stats.MedianInterval(kerneltest.Ratios(a, separate))
		fmt.Fprintf(os.Stderr, "  %-14s %10.4f [%.4f, %.4f]\n", a.Name, mid, low, high)
	}
	b.ReportMetric(0, "ns/op") // the round's length is meaningless
}

// sampler returns a function that measures the seconds of one product and what follows it.
func (l *fusedLayer) sampler(way string, m int) (func() (float64, error), error) {
	s := l.product
	if way == "fused" {
		s = l.fused
	}
	task := kernels.Task{Subject: s, M: m}
	k, err := kernels.Find(l.d, s.Operation, "auto")
	if err == nil {
		task, err = task.Normalized()
	}
	if err == nil {
		err = k.Supports(task)
	}
	if err != nil {
		return nil, err
	}
	ws, err := l.prepared(k, task)
	if err != nil {
		return nil, err
	}
	in, _, _ := task.Extents()
	a, err := l.alloc(int(in), s.DType, 99)
	if err != nil {
		return nil, err
	}
	c, err := l.alloc(m*s.N, s.DType, 0)
	if err != nil {
		return nil, err
	}
	after, err := l.after(way, m, kernels.Operand{Buffer: c})
	if err != nil {
		return nil, err
	}
	r := &rotation{d: l.d, n: len(ws)}
	for _, w := range ws {
		one, err := k.Bind(task, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
		if err != nil {
			return nil, err
		}
		r.launches = append(append(r.launches, one), after...)
	}
	each := float64(1 + len(after))
	r.n = len(r.launches)
	once, err := r.run()
	if err != nil {
		return nil, err
	}
	r.n *= int(min(max(reachBlock.Seconds()/(once*float64(r.n)), 1), 50))
	return func() (float64, error) {
		seconds, err := r.run()
		return seconds * each, err
	}, nil
}

// prepared returns copies of weights that exceed three times the last-level cache. All M share them.
func (l *fusedLayer) prepared(k kernels.Kernel, t kernels.Task) ([]kernels.Weights, error) {
	ws := l.weights[t.Operation]
	if ws != nil {
		return ws, nil
	}
	raw, err := l.d.Alloc(t.Stored(t.M))
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	if err := kernels.FillWeights(raw, t.Subject, t.M, kernels.Normal, 1); err != nil {
		return nil, err
	}
	for held := int64(0); held <= 3*l.d.Spec().LastLevelCacheBytes; {
		w, err := k.Prepare(t, raw)
		if err != nil {
			return nil, err
		}
		l.b.Cleanup(func() { w.Close() })
		held += w.Bytes()
		ws = append(ws, w)
	}
	l.weights[t.Operation] = ws
	return ws, nil
}

// after returns what the decoder launches after a product with C: the gated unit, or the norm with the sum.
func (l *fusedLayer) after(way string, m int, c kernels.Operand) ([]kernels.Launch, error) {
	n, dt, separate := l.product.N, l.product.DType, way == ways[0]
	if l.fused.Epilogue.IsGated() && !separate {
		return nil, nil
	}
	out, err := l.alloc(m*n, dt, 0)
	if err != nil {
		return nil, err
	}
	if l.fused.Epilogue.IsGated() {
		one, err := l.d.Activate(kernels.GatedUnit{Rows: m, Inner: n / 2, DType: dt, GateUp: c, Out: kernels.Operand{Buffer: out}})
		return []kernels.Launch{one}, err
	}
	x, err := l.alloc(m*n, kernels.FP32, 98)
	if err != nil {
		return nil, err
	}
	weight, err := l.alloc(n, dt, 97)
	if err != nil {
		return nil, err
	}
	norm := kernels.Normalization{Rows: m, Hidden: n, DType: dt, Epsilon: 1e-5, X: kernels.Operand{Buffer: x},
		Weight: kernels.Operand{Buffer: weight}, Out: kernels.Operand{Buffer: out}}
	if separate {
		norm.Delta = c
	}
	one, err := l.d.Normalize(norm)
	return []kernels.Launch{one}, err
}
