package cpu

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// BenchmarkQuantised times products with quantised weights as
// BenchmarkQuantised/dtype/format/shape, plain weights beside them. Weights rotate past three times the
// last-level cache. GB/s counts the packed weights, read-share is that of the bandwidth of reading, and
// cpu-share the same by the processor time that the threads got: on a machine that others load, they
// wait for a processor for part of a launch.
func BenchmarkQuantised(b *testing.B) {
	dev := open(b, 0)
	_, read := openReader(b, dev)
	sizes := []kernels.Shape{{N: 4096, K: 4096}, {N: 14336, K: 4096}, {N: 4096, K: 14336}}
	for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
		for _, format := range []string{"plain", "int4:128", "int4:32", "int8:128"} {
			weights, err := kernels.ParseQuantisation(format)
			if err != nil {
				b.Fatal(err)
			}
			for _, m := range []int{1, 2, 4, 8, 16, 32, 128, 1024} {
				for i, s := range sizes {
					if s.M = m; m > 1 && i > 0 {
						continue
					}
					b.Run(fmt.Sprintf("%s/%s/m%d-n%d-k%d", d, format, s.M, s.N, s.K), func(b *testing.B) {
						benchmarkQuantised(b, dev, read, s, d, weights)
					})
				}
			}
		}
	}
}

// processorSeconds is what the process has used.
func processorSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// rotating is a product bound by a kernel to weights that rotate past three times the last-level cache.
// bytes are those of one launch's weights.
func rotating(b *testing.B, dev *Device, kernel string, s kernels.Shape, d kernels.DType, weights kernels.Quantisation) (launches []kernels.Launch, bytes int64) {
	return copied(b, dev, kernel, s, d, weights, 2, 3*dev.Spec().LastLevelCacheBytes)
}

// copied is a product bound to copies of its weights, as many as there are to be at least, that take more
// than so many bytes; each is what one of them takes.
func copied(b *testing.B, dev *Device, kernel string, s kernels.Shape, d kernels.DType, weights kernels.Quantisation, least int, bytes int64) (launches []kernels.Launch, each int64) {
	f, err := weights.Format(d, s.K)
	if err != nil {
		b.Fatal(err)
	}
	subject := kernels.Product(d, s.N, s.K)
	subject.Layout, subject.Weights = kernels.Transposed, f
	task := kernels.Task{Subject: subject, M: s.M}
	bound, err := kernels.FindImplementation(dev, kernels.GEMM, kernel)
	if err != nil {
		b.Fatal(err)
	}
	alloc := func(bytes int64) kernels.Buffer {
		buf, err := dev.Alloc(bytes)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { buf.Close() })
		return buf
	}
	a, c := alloc(int64(s.M*s.K*d.Size())), alloc(int64(s.M*s.N*d.Size()))
	raw := alloc(subject.Stored(s.M))
	if err := a.Fill(kernels.Normal, d, int64(s.M*s.K), 1); err != nil {
		b.Fatal(err)
	}
	if err := kernels.FillWeights(raw, subject, s.M, kernels.Normal, 2); err != nil {
		b.Fatal(err)
	}
	first, err := bound.PrepareWeights(task, raw)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { first.Close() })
	for w, held := first, int64(0); held <= bytes || len(launches) < least; held += w.Bytes() {
		if len(launches) > 0 {
			if w, err = first.(kernels.Copyable).Copy(raw); err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { w.Close() })
		}
		l, err := bound.Bind(task, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
		if err != nil {
			b.Fatal(err)
		}
		launches = append(launches, l)
	}
	if _, err := dev.Execute(context.Background(), launches, len(launches)); err != nil {
		b.Fatal(err)
	}
	return launches, first.Bytes()
}

func benchmarkQuantised(b *testing.B, dev *Device, read func() float64, s kernels.Shape, d kernels.DType, weights kernels.Quantisation) {
	launches, each := rotating(b, dev, "auto", s, d, weights)
	b.ResetTimer()
	used := processorSeconds(b)
	span, err := dev.Execute(context.Background(), launches, b.N)
	used = (processorSeconds(b) - used) / float64(dev.Threads())
	b.StopTimer()
	if err != nil {
		b.Fatal(err)
	}
	bandwidth := read()
	bytes := float64(each) * float64(b.N)
	b.ReportMetric(bytes/span.Seconds/1e9, "GB/s")
	b.ReportMetric(bytes/span.Seconds/bandwidth, "read-share")
	b.ReportMetric(bytes/used/bandwidth, "cpu-share")
	b.ReportMetric(s.FLOPs()*float64(b.N)/span.Seconds/1e9, "GFLOP/s")
}

// BenchmarkQuantisedInCache times products of few rows on one thread with weights that stay in its second-level
// cache, as BenchmarkQuantisedInCache/dtype/format/m, in weights per cycle. For memory to be what is waited
// for, a core needs its share of the read bandwidth ÷ clock ÷ bytes a weight. It is the best of b.N blocks,
// so that it tells something on a machine that others load, too.
func BenchmarkQuantisedInCache(b *testing.B) {
	dev := open(b, 1)
	const n, k, launches = 256, 2048, 50
	for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
		for _, format := range []string{"int4:128", "int4:128:zero", "int4:64", "int4:32", "int4:32:zero", "int8:128", "int8:32"} {
			weights, err := kernels.ParseQuantisation(format)
			if err != nil {
				b.Fatal(err)
			}
			for m := 1; m <= 4; m++ {
				b.Run(fmt.Sprintf("%s/%s/m%d", d, format, m), func(b *testing.B) {
					l, _ := copied(b, dev, "gemv", kernels.Shape{M: m, N: n, K: k}, d, weights, 1, 0)
					best := 0.0
					for b.Loop() {
						span, err := dev.Execute(b.Context(), l, launches)
						if err != nil {
							b.Fatal(err)
						}
						best = max(best, n*k*launches/(span.Seconds*span.ClockMHz*1e6))
					}
					b.ReportMetric(best, "weights/cycle")
				})
			}
		}
	}
}

// BenchmarkQuantisedBesidePlain times products with quantised weights in turns with plain ones, as
// BenchmarkQuantisedBesidePlain/dtype/m/format/kernel. "plain" is how many times as long the plain
// product takes by auto: below 1 is what the parity rule calls a finding. It is the median over pairs of
// a plain and a quantised launch, as are the microseconds.
func BenchmarkQuantisedBesidePlain(b *testing.B) {
	dev := open(b, 0)
	for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
		for _, m := range []int{2, 4, 8, 12, 16, 24, 32, 64, 128, 512} {
			s := kernels.Shape{M: m, N: 4096, K: 4096}
			plain, _ := rotating(b, dev, "auto", s, d, kernels.Quantisation{})
			for _, format := range []string{"int4:128", "int8:128"} {
				weights, err := kernels.ParseQuantisation(format)
				if err != nil {
					b.Fatal(err)
				}
				for _, kernel := range []string{"gemv", "tiled", "amx"} {
					if kernel == "gemv" && m > gemvRows || kernel == "amx" && (d != kernels.BF16 || dev.gemm(kernel) == nil) {
						continue
					}
					b.Run(fmt.Sprintf("%s/m%d/%s/%s", d, m, format, kernel), func(b *testing.B) {
						quantised, _ := rotating(b, dev, kernel, s, d, weights)
						b.ResetTimer()
						var ratios, times []float64
						for i := range b.N {
							var seconds [2]float64
							for k, of := range [][]kernels.Launch{plain, quantised} {
								span, err := dev.Execute(b.Context(), []kernels.Launch{of[i%len(of)]}, 1)
								if err != nil {
									b.Fatal(err)
								}
								seconds[k] = span.Seconds
							}
							ratios, times = append(ratios, seconds[0]/seconds[1]), append(times, seconds[1]*1e6)
						}
						slices.Sort(ratios)
						slices.Sort(times)
						b.ReportMetric(ratios[len(ratios)/2], "plain")
						b.ReportMetric(times[len(times)/2], "µs")
					})
				}
			}
		}
	}
}
