//go:build cuda

package cuda_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/quantised"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/timing"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// quantizedMs are the rows of the table, with the required speedup over cuBLAS on plain weights from each M
// on.
var quantizedMs = []struct {
	m     int
	asked float64
}{{1, 3}, {2, 3}, {4, 3}, {8, 3}, {16, 3}, {32, 2.6}, {64, 2}, {128, 1.25}, {256, 0.95}, {512, 0.92}, {1024, 0.92}, {2048, 0.92},
	{4096, 0.92}}

// quantizedBlock is the length of one sample in seconds, unless a launch is longer.
const quantizedBlock = 2e-3

type quantizedCase struct {
	timing.Rotation
	d kernels.Device
}

func (r *quantizedCase) seconds() (float64, error) {
	return r.Rotation.Seconds(context.Background(), r.d)
}

type quantizedBench struct {
	d         *cuda.Device
	a, c      kernels.Buffer
	raws      []kernels.Buffer // quantized
	plain     []kernels.Buffer
	dt        kernels.DType
	n, k      int
	weights   kernels.WeightFormat
	quantized map[string][]kernels.Weights // by kernel
}

func newQuantizedBench(b *testing.B, d *cuda.Device, dt kernels.DType, n, k, most int, weights kernels.WeightFormat) *quantizedBench {
	b.Helper()
	w := &quantizedBench{d: d, dt: dt, n: n, k: k, quantized: map[string][]kernels.Weights{}}
	var err error
	if w.weights, err = weights.For(dt, k); err != nil {
		b.Fatal(err)
	}
	fill := func(elements int64, seed uint64) kernels.Buffer {
		buffer := gputest.Buffer(b, d, elements*int64(dt.Size()))
		if err := buffer.Fill(kernels.Normal, dt, elements, seed); err != nil {
			b.Fatal(err)
		}
		return buffer
	}
	w.a, w.c = fill(int64(most)*int64(k), 99), gputest.Buffer(b, d, int64(most)*int64(n)*int64(dt.Size()))
	subject := kernels.Product(dt, n, k)
	subject.Layout, subject.Weights = kernels.Transposed, w.weights
	past := kernels.RotationFactor * d.Spec().LastLevelCacheBytes
	for i := range past/subject.Stored(1) + 1 {
		raw := gputest.Buffer(b, d, subject.Stored(1))
		if err := kernels.FillWeights(raw, subject, 1, kernels.Normal, uint64(i)); err != nil {
			b.Fatal(err)
		}
		w.raws = append(w.raws, raw)
	}
	for i := range past/(int64(n)*int64(k)*int64(dt.Size())) + 1 {
		w.plain = append(w.plain, fill(int64(n)*int64(k), uint64(i)+1))
	}
	return w
}

func (w *quantizedBench) prepared(b *testing.B, name string, raws []kernels.Buffer,
	prepare func(raw kernels.Buffer) (kernels.Weights, error)) []kernels.Weights {
	b.Helper()
	if w.quantized[name] == nil {
		for _, raw := range raws {
			one, err := prepare(raw)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { one.Close() })
			w.quantized[name] = append(w.quantized[name], one)
		}
	}
	return w.quantized[name]
}

func (w *quantizedBench) series(b *testing.B, name string, m int,
	bind func(p kernels.Task) ([]kernels.Launch, error)) (*kerneltest.Series, string) {
	b.Helper()
	launches, err := bind(kernels.Task{Subject: kernels.Linear(w.dt, w.n, w.k), M: m})
	if err != nil {
		b.Fatal(err)
	}
	c := &quantizedCase{d: w.d, Rotation: timing.Rotation{Launches: launches, N: len(launches)}}
	once, err := c.seconds() // code and clocks
	if err != nil {
		b.Fatal(err)
	}
	c.N = int(min(max(quantizedBlock/once, 1), 400))
	return &kerneltest.Series{Name: fmt.Sprintf("%s m%d", name, m), Sample: c.seconds}, launches[0].Label()
}

func (w *quantizedBench) byPlain(b *testing.B, g kernels.Kernel) func(kernels.Task) ([]kernels.Launch, error) {
	return func(p kernels.Task) (launches []kernels.Launch, err error) {
		for _, weights := range w.prepared(b, g.Name(), w.plain,
			func(raw kernels.Buffer) (kernels.Weights, error) { return g.Prepare(p, raw) }) {
			l, err := g.Bind(p, kernels.Operand{Buffer: w.a}, weights, kernels.Operand{Buffer: w.c})
			if err != nil {
				return nil, err
			}
			launches = append(launches, l)
		}
		return launches, nil
	}
}

func (w *quantizedBench) byQuantized(b *testing.B, g kernels.Kernel) func(kernels.Task) ([]kernels.Launch, error) {
	return func(p kernels.Task) (launches []kernels.Launch, err error) {
		q := p.WithWeights(w.weights)
		for _, weights := range w.prepared(b, g.Name(), w.raws,
			func(raw kernels.Buffer) (kernels.Weights, error) { return g.Prepare(q, raw) }) {
			l, err := g.Bind(q, kernels.Operand{Buffer: w.a}, weights, kernels.Operand{Buffer: w.c})
			if err != nil {
				return nil, err
			}
			launches = append(launches, l)
		}
		return launches, nil
	}
}

// BenchmarkQuantized compares auto on 4-bit weights in groups of 128 with cuBLAS on plain ones. Weights come
// from memory, and rounds are interleaved. GEMMAUDIT_QUANTISED_WAYS=1 also measures each plan that auto
// chooses from.
func BenchmarkQuantized(b *testing.B) {
	devices, missing := cuda.Provider{}.Open()
	if len(devices) == 0 {
		b.Skipf("no GPU: %v", missing)
	}
	d := devices[0].(*cuda.Device)
	b.Cleanup(func() { d.Close() })
	library, err := kernels.Find(d, kernels.GEMM, "cublas")
	if err != nil {
		b.Skip(err)
	}
	ways := os.Getenv("GEMMAUDIT_QUANTISED_WAYS") != ""
	for _, dt := range []kernels.DType{kernels.BF16, kernels.FP16} {
		for _, nk := range [][2]int{{14336, 4096}, {4096, 14336}} {
			b.Run(fmt.Sprintf("%s/n%dk%d", dt, nk[0], nk[1]), func(b *testing.B) {
				w := newQuantizedBench(b, d, dt, nk[0], nk[1], quantizedMs[len(quantizedMs)-1].m, kernels.IntegerWeights(4, 128, false))
				w.table(b, library, ways)
				b.ReportMetric(0, "ns/op") // rounds have no meaningful ns/op
			})
		}
	}
}

func (w *quantizedBench) table(b *testing.B, library kernels.Kernel, ways bool) {
	auto, err := kernels.Find(w.d, kernels.GEMM, "auto")
	if err != nil {
		b.Fatal(err)
	}
	type row struct {
		theirs, ours  *kerneltest.Series
		label         string
		others        []*kerneltest.Series
		othersLabels  []string
		othersSeconds []float64
	}
	rows := make([]row, len(quantizedMs))
	var all []*kerneltest.Series
	for i, at := range quantizedMs {
		r := &rows[i]
		r.theirs, _ = w.series(b, library.Name(), at.m, w.byPlain(b, library))
		r.ours, r.label = w.series(b, "auto", at.m, w.byQuantized(b, auto))
		all = append(all, r.theirs, r.ours)
		if !ways {
			continue
		}
		q := kernels.Task{Subject: kernels.Linear(w.dt, w.n, w.k), M: at.m}.WithWeights(w.weights)
		if q, err = q.Normalized(); err != nil {
			b.Fatal(err)
		}
		p := gemm.NewProblem(q, 16, 16)
		for _, way := range cudatest.Ways(w.d.Arch(), quantised.Family(quantised.Integers{Bits: 4}), p) {
			s, label := w.series(b, "way", at.m, w.byQuantized(b, quantised.NewKernel(w.d.Device, way)))
			r.others, r.othersLabels = append(r.others, s), append(r.othersLabels, label)
			r.othersSeconds = append(r.othersSeconds, way.Plan(w.d.Arch(), p).Seconds)
			all = append(all, s)
		}
	}
	kerneltest.MeasureRounds(b, all)
	for i, at := range quantizedMs {
		r := rows[i]
		mid, low, high := stats.MedianInterval(kerneltest.Ratios(r.theirs, r.ours))
		fmt.Fprintf(os.Stderr, "quantised %-4s n%d k%d m%-6d cublas %9.2f us  auto %9.2f us  %.3f [%.3f, %.3f] asked %.2f  %s\n", w.dt, w.n,
			w.k, at.m,
			1e6*stats.Median(r.theirs.Samples), 1e6*stats.Median(r.ours.Samples), mid, low, high, at.asked, r.label)
		for j, s := range r.others {
			fmt.Fprintf(os.Stderr, "  way %-4s n%d k%d m%-6d %9.2f us  expected %9.2f us  %s\n", w.dt, w.n, w.k, at.m,
				1e6*stats.Median(s.Samples), 1e6*r.othersSeconds[j], r.othersLabels[j])
		}
	}
}
