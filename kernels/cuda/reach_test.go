//go:build cuda

package cuda_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
)

// reachBlock is the length of one sample in seconds, as far as launches are shorter.
const reachBlock = 2e-3

// reachGoal is one row of the table of what auto is to reach beside a library.
type reachGoal struct {
	dtypes         []kernels.DType
	peer           string
	shapes         [][2]int // N, K
	batches        string   // for people
	ms             []int
	geomean, worst float64 // of the library's time over ours
}

// logSpaced are n batches from low to high in equal ratios: few of them are powers
// of two, which libraries are best at.
func logSpaced(low, high, n int) []int {
	var ms []int
	for i := range n {
		m := int(math.Round(float64(low) * math.Pow(float64(high)/float64(low), float64(i)/float64(n-1))))
		if !slices.Contains(ms, m) {
			ms = append(ms, m)
		}
	}
	return ms
}

func reachGoals() []reachGoal {
	halves := []kernels.DType{kernels.BF16, kernels.FP16}
	layer := [][2]int{{14336, 4096}, {4096, 4096}, {4096, 14336}, {6144, 4096}}
	return []reachGoal{
		{halves, "cublas", layer, "1 to 16", logSpaced(1, 16, 16), 1.0, 0.95},
		{halves, "cublas", layer, "17 to 511", logSpaced(17, 511, 16), 0.95, 0.85},
		{halves, "cublas", layer, "512 to 32768", logSpaced(512, 32768, 32), 0.92, 0.85},
		{[]kernels.DType{kernels.INT8, kernels.FP8}, "cublaslt", layer[:1], "1024 to 16384", logSpaced(1024, 16384, 9), 0.85, 0.75},
	}
}

// reachCase is one product by one kernel, its launches rotating over the copies of
// the weights.
type reachCase struct {
	d        kernels.Device
	launches []kernels.Launch
	at, n    int
}

// seconds executes one block and returns the time of a launch.
func (r *reachCase) seconds() (float64, error) {
	turned := slices.Concat(r.launches[r.at:], r.launches[:r.at])
	r.at = (r.at + r.n) % len(r.launches)
	span, err := r.d.Execute(context.Background(), turned, r.n)
	return span.Seconds / float64(r.n), err
}

// reachBench holds the memory that all cases of one weight matrix share.
type reachBench struct {
	d       kernels.Device
	a, c    kernels.Buffer
	raws    []kernels.Buffer
	closers []func() error
}

func (w *reachBench) close() error {
	var first error
	for i := len(w.closers) - 1; i >= 0; i-- {
		if err := w.closers[i](); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (w *reachBench) alloc(elements int64, dt kernels.DType, seed uint64) (kernels.Buffer, error) {
	b, err := w.d.Alloc(elements * int64(dt.Size()))
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, b.Close)
	if seed == 0 {
		return b, nil
	}
	return b, b.Fill(kernels.Normal, dt, elements, seed)
}

// newReachBench fills as many copies of the weights as make three times the L2.
func newReachBench(d kernels.Device, dt kernels.DType, n, k, maxM int) (*reachBench, error) {
	w := &reachBench{d: d}
	var err error
	if w.a, err = w.alloc(int64(maxM)*int64(k), dt, 99); err != nil {
		return w, err
	}
	if w.c, err = w.alloc(int64(maxM)*int64(n), dt.Output(), 0); err != nil {
		return w, err
	}
	copies := 3*d.Spec().LastLevelCacheBytes/(int64(n)*int64(k)*int64(dt.Size())) + 1
	for i := range copies {
		raw, err := w.alloc(int64(n)*int64(k), dt, uint64(i)+1)
		if err != nil {
			return w, err
		}
		w.raws = append(w.raws, raw)
	}
	return w, nil
}

// cases prepares the weights of one kernel and binds every batch to them.
func (w *reachBench) cases(kernel string, dt kernels.DType, n, k int, ms []int) ([]*reachCase, error) {
	g, err := kernels.FindGemm(w.d, kernel)
	if err != nil {
		return nil, err
	}
	out := make([]*reachCase, len(ms))
	for _, raw := range w.raws {
		var weights kernels.Weights
		for i, m := range ms {
			p := kernels.Problem{Shape: kernels.Shape{M: m, N: n, K: k}, DType: dt}
			if err := g.Supports(p); err != nil {
				return nil, err
			}
			if weights == nil {
				if weights, err = g.PrepareWeights(p, raw); err != nil {
					return nil, err
				}
				w.closers = append(w.closers, weights.Close)
			}
			l, err := g.Bind(p, kernels.Operand{Buffer: w.a}, weights, kernels.Operand{Buffer: w.c})
			if err != nil {
				return nil, err
			}
			if out[i] == nil {
				out[i] = &reachCase{d: w.d, n: 1}
			}
			out[i].launches = append(out[i].launches, l)
		}
	}
	for _, c := range out {
		c.n = len(c.launches)
		once, err := c.seconds() // code and clocks
		if err != nil {
			return nil, err
		}
		c.n = int(min(max(reachBlock/once, 1), 400))
	}
	return out, nil
}

// BenchmarkReach measures auto beside the vendor's library in the regime engine, on
// normal data and at whatever clock the card takes. One iteration is one round over
// the batches of one weight matrix: -benchtime=31x for more.
func BenchmarkReach(b *testing.B) {
	devices, missing := cuda.Provider{}.Open()
	if len(devices) == 0 {
		b.Skipf("no GPU: %v", missing)
	}
	b.Cleanup(func() {
		for _, d := range devices {
			d.Close()
		}
	})
	d := devices[0]
	for _, goal := range reachGoals() {
		for _, dt := range goal.dtypes {
			var ratios []float64
			for _, nk := range goal.shapes {
				name := fmt.Sprintf("%s/m=%s/n%dk%d", dt, strings.ReplaceAll(goal.batches, " to ", "-"), nk[0], nk[1])
				b.Run(name, func(b *testing.B) {
					r, err := reachMatrix(b, d, goal, dt, nk[0], nk[1])
					if err != nil {
						b.Fatal(err)
					}
					geomean, worst := summary(r)
					b.ReportMetric(geomean, "geomean")
					b.ReportMetric(worst, "worst")
					b.ReportMetric(0, "ns/op") // a round's length says nothing
					ratios = append(ratios, r...)
				})
			}
			if len(ratios) > 0 {
				geomean, worst := summary(ratios)
				fmt.Fprintf(os.Stderr, "reach %-4s m %-13s %s ÷ auto: geomean %.3f (asked %.2f), worst %.3f (asked %.2f), %d cases\n",
					dt, goal.batches, goal.peer, geomean, goal.geomean, worst, goal.worst, len(ratios))
			}
		}
	}
}

// reachMatrix measures all batches of one weight matrix, auto and its peer, in
// interleaved rounds, and prints a line for each.
func reachMatrix(b *testing.B, d kernels.Device, goal reachGoal, dt kernels.DType, n, k int) (ratios []float64, err error) {
	w, err := newReachBench(d, dt, n, k, slices.Max(goal.ms))
	defer func() {
		if closing := w.close(); err == nil {
			err = closing
		}
	}()
	if err != nil {
		return nil, err
	}
	var all, ours, theirs []*kerneltest.Series
	var labels []string
	for _, kernel := range []string{"auto", goal.peer} {
		cases, err := w.cases(kernel, dt, n, k, goal.ms)
		if err != nil {
			return nil, err
		}
		for i, c := range cases {
			s := &kerneltest.Series{Name: fmt.Sprintf("%s m%d", kernel, goal.ms[i]), Sample: c.seconds}
			all = append(all, s)
			if kernel == "auto" {
				ours = append(ours, s)
				labels = append(labels, c.launches[0].Label())
			} else {
				theirs = append(theirs, s)
			}
		}
	}
	kerneltest.MeasureRounds(b, all)
	for i, m := range goal.ms {
		mid, low, high := kerneltest.Interval(kerneltest.Ratios(theirs[i], ours[i]))
		ratios = append(ratios, mid)
		fmt.Fprintf(os.Stderr, "%-4s n%d k%d m%-6d %s %9.2f us  auto %9.2f us  %.3f [%.3f, %.3f]  %s\n", dt, n, k, m, goal.peer,
			1e6*kerneltest.Median(theirs[i].Samples), 1e6*kerneltest.Median(ours[i].Samples), mid, low, high, labels[i])
	}
	return ratios, nil
}

// summary returns the geometric mean and the least of ratios.
func summary(ratios []float64) (geomean, worst float64) {
	sum := 0.0
	for _, r := range ratios {
		sum += math.Log(r)
	}
	return math.Exp(sum / float64(len(ratios))), slices.Min(ratios)
}
