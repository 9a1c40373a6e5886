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
)

// quantisedMs are those of the table that is asked for, with which factors of cuBLAS's time on plain
// weights over ours, from each M on.
var quantisedMs = []struct {
	m     int
	asked float64
}{{1, 3}, {2, 3}, {4, 3}, {8, 3}, {16, 3}, {32, 2.6}, {64, 2}, {128, 1.25}, {256, 0.95}, {512, 0.92}, {1024, 0.92}, {2048, 0.92}, {4096, 0.92}}

// quantisedBlock is the length of one sample in seconds, as far as launches are shorter.
const quantisedBlock = 2e-3

// quantisedCase is one product by one kernel, its launches rotating over the copies of the weights.
type quantisedCase struct {
	timing.Rotation
	d kernels.Device
}

// seconds executes one block and returns the time of a launch.
func (r *quantisedCase) seconds() (float64, error) {
	return r.Rotation.Seconds(context.Background(), r.d)
}

// quantisedBench is the memory that all cases of one weight matrix share.
type quantisedBench struct {
	d         *cuda.Device
	a, c      kernels.Buffer
	raws      []kernels.Buffer // quantised
	plain     []kernels.Buffer
	dt        kernels.DType
	n, k      int
	weights   kernels.WeightFormat
	quantised map[string][]kernels.Weights // by kernel
}

func newQuantisedBench(b *testing.B, d *cuda.Device, dt kernels.DType, n, k, most int, weights kernels.Quantisation) *quantisedBench {
	b.Helper()
	w := &quantisedBench{d: d, dt: dt, n: n, k: k, quantised: map[string][]kernels.Weights{}}
	var err error
	if w.weights, err = weights.Format(dt, k); err != nil {
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

// prepared are the weights that a kernel reads, prepared once.
func (w *quantisedBench) prepared(b *testing.B, name string, raws []kernels.Buffer, prepare func(raw kernels.Buffer) (kernels.Weights, error)) []kernels.Weights {
	b.Helper()
	if w.quantised[name] == nil {
		for _, raw := range raws {
			one, err := prepare(raw)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { one.Close() })
			w.quantised[name] = append(w.quantised[name], one)
		}
	}
	return w.quantised[name]
}

// series is one product by one kernel, its launches rotating over the copies of the weights.
func (w *quantisedBench) series(b *testing.B, name string, m int, bind func(p kernels.Problem) ([]kernels.Launch, error)) (*kerneltest.Series, string) {
	b.Helper()
	launches, err := bind(kernels.Problem{Shape: kernels.Shape{M: m, N: w.n, K: w.k}, DType: w.dt, BLayout: kernels.Transposed})
	if err != nil {
		b.Fatal(err)
	}
	c := &quantisedCase{d: w.d, Rotation: timing.Rotation{Launches: launches, N: len(launches)}}
	once, err := c.seconds() // code and clocks
	if err != nil {
		b.Fatal(err)
	}
	c.N = int(min(max(quantisedBlock/once, 1), 400))
	return &kerneltest.Series{Name: fmt.Sprintf("%s m%d", name, m), Sample: c.seconds}, launches[0].Label()
}

// byPlain binds a kernel on plain weights.
func (w *quantisedBench) byPlain(b *testing.B, g kernels.Gemm) func(kernels.Problem) ([]kernels.Launch, error) {
	return func(p kernels.Problem) (launches []kernels.Launch, err error) {
		for _, weights := range w.prepared(b, g.Name(), w.plain, func(raw kernels.Buffer) (kernels.Weights, error) { return g.PrepareWeights(p, raw) }) {
			l, err := g.Bind(p, kernels.Operand{Buffer: w.a}, weights, kernels.Operand{Buffer: w.c})
			if err != nil {
				return nil, err
			}
			launches = append(launches, l)
		}
		return launches, nil
	}
}

// byQuantised binds a kernel on quantised weights, which all ways of one family share.
func (w *quantisedBench) byQuantised(b *testing.B, g kernels.QuantisedGemm) func(kernels.Problem) ([]kernels.Launch, error) {
	return func(p kernels.Problem) (launches []kernels.Launch, err error) {
		q := kernels.QuantisedProblem{Problem: p, Weights: w.weights}
		for _, weights := range w.prepared(b, g.Name(), w.raws, func(raw kernels.Buffer) (kernels.Weights, error) { return g.PrepareQuantised(q, raw) }) {
			l, err := g.BindQuantised(q, kernels.Operand{Buffer: w.a}, weights, kernels.Operand{Buffer: w.c})
			if err != nil {
				return nil, err
			}
			launches = append(launches, l)
		}
		return launches, nil
	}
}

// BenchmarkQuantised measures auto on weights of 4 bits in groups of 128 beside cuBLAS on plain
// ones, weights from memory, in interleaved rounds. With GEMMAUDIT_QUANTISED_WAYS=1 it measures each
// plan that auto chooses among, too.
func BenchmarkQuantised(b *testing.B) {
	devices, missing := cuda.Provider{}.Open()
	if len(devices) == 0 {
		b.Skipf("no GPU: %v", missing)
	}
	d := devices[0].(*cuda.Device)
	b.Cleanup(func() { d.Close() })
	library, err := kernels.FindGemm(d, "cublas")
	if err != nil {
		b.Skip(err)
	}
	ways := os.Getenv("GEMMAUDIT_QUANTISED_WAYS") != ""
	for _, dt := range []kernels.DType{kernels.BF16, kernels.FP16} {
		for _, nk := range [][2]int{{14336, 4096}, {4096, 14336}} {
			b.Run(fmt.Sprintf("%s/n%dk%d", dt, nk[0], nk[1]), func(b *testing.B) {
				w := newQuantisedBench(b, d, dt, nk[0], nk[1], quantisedMs[len(quantisedMs)-1].m, kernels.Quantisation{Bits: 4, Group: 128})
				w.table(b, library, ways)
				b.ReportMetric(0, "ns/op") // a round's length says nothing
			})
		}
	}
}

// table measures every M and prints a line for each.
func (w *quantisedBench) table(b *testing.B, library kernels.Gemm, ways bool) {
	auto, err := kernels.FindGemm(w.d, "auto")
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
	rows := make([]row, len(quantisedMs))
	var all []*kerneltest.Series
	for i, at := range quantisedMs {
		r := &rows[i]
		r.theirs, _ = w.series(b, library.Name(), at.m, w.byPlain(b, library))
		r.ours, r.label = w.series(b, "auto", at.m, w.byQuantised(b, auto.(kernels.QuantisedGemm)))
		all = append(all, r.theirs, r.ours)
		if !ways {
			continue
		}
		q := kernels.QuantisedProblem{Problem: kernels.Problem{Shape: kernels.Shape{M: at.m, N: w.n, K: w.k}, DType: w.dt, BLayout: kernels.Transposed}, Weights: w.weights}
		if q, err = q.Normalized(); err != nil {
			b.Fatal(err)
		}
		p := quantised.Problem{Problem: gemm.NewProblem(q.Problem, 16, 16), Weights: q.Weights}
		for _, way := range cudatest.Ways(w.d.Arch(), quantised.Family(quantised.Integers{Bits: 4}), p) {
			s, label := w.series(b, "way", at.m, w.byQuantised(b, quantised.NewKernel(w.d.Device, way)))
			r.others, r.othersLabels = append(r.others, s), append(r.othersLabels, label)
			r.othersSeconds = append(r.othersSeconds, way.Plan(w.d.Arch(), p).Seconds)
			all = append(all, s)
		}
	}
	kerneltest.MeasureRounds(b, all)
	for i, at := range quantisedMs {
		r := rows[i]
		mid, low, high := kerneltest.Interval(kerneltest.Ratios(r.theirs, r.ours))
		fmt.Fprintf(os.Stderr, "quantised %-4s n%d k%d m%-6d cublas %9.2f us  auto %9.2f us  %.3f [%.3f, %.3f] asked %.2f  %s\n", w.dt, w.n, w.k, at.m,
			1e6*kerneltest.Median(r.theirs.Samples), 1e6*kerneltest.Median(r.ours.Samples), mid, low, high, at.asked, r.label)
		for j, s := range r.others {
			fmt.Fprintf(os.Stderr, "  way %-4s n%d k%d m%-6d %9.2f us  expected %9.2f us  %s\n", w.dt, w.n, w.k, at.m,
				1e6*kerneltest.Median(s.Samples), 1e6*r.othersSeconds[j], r.othersLabels[j])
		}
	}
}
