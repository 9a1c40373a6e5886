package cpu

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// BenchmarkQuantized times quantized and plain weights as BenchmarkQuantized/dtype/format/shape. Weights
// rotate through three times the last-level cache. GB/s counts packed weights; read-share is the ratio to the
// read bandwidth, cpu-share the same per CPU time, for busy machines.
func BenchmarkQuantized(b *testing.B) {
	dev := open(b, 0)
	_, read := openReader(b, dev)
	sizes := []kernels.Shape{{N: 4096, K: 4096}, {N: 14336, K: 4096}, {N: 4096, K: 14336}}
	for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
		for _, format := range []string{"plain", "int4:128", "int4:32", "int8:128"} {
			weights, err := kernels.ParseWeights(format)
			if err != nil {
				b.Fatal(err)
			}
			for _, m := range []int{1, 2, 4, 8, 16, 32, 128, 1024} {
				for i, s := range sizes {
					if s.M = m; m > 1 && i > 0 {
						continue
					}
					b.Run(fmt.Sprintf("%s/%s/m%d-n%d-k%d", d, format, s.M, s.N, s.K), func(b *testing.B) {
						benchmarkQuantized(b, dev, read, s, d, weights)
					})
				}
			}
		}
	}
}

func processorSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// rotating binds a product to weights that rotate through three times the last-level cache. bytes is the
// weights' size per launch.
func rotating(b *testing.B, dev *Device, kernel string, s kernels.Shape, d kernels.DType,
	weights kernels.WeightFormat) (launches []kernels.Launch, bytes int64) {
	return copied(b, dev, kernel, s, d, weights, 2, 3*dev.Spec().LastLevelCacheBytes)
}

// copied binds a product to at least least copies of its weights, with a total above bytes. each is the size
// of a copy.
func copied(b *testing.B, dev *Device, kernel string, s kernels.Shape, d kernels.DType, weights kernels.WeightFormat, least int,
	bytes int64) (launches []kernels.Launch, each int64) {
	f, err := weights.For(d, s.K)
	if err != nil {
		b.Fatal(err)
	}
	subject := kernels.Product(d, s.N, s.K)
	subject.Layout, subject.Weights = kernels.Transposed, f
	task := kernels.Task{Subject: subject, M: s.M}
	bound, err := kernels.Find(dev, kernels.GEMM, kernel)
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
	first, err := bound.Prepare(task, raw)
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

func benchmarkQuantized(b *testing.B, dev *Device, read func() float64, s kernels.Shape, d kernels.DType, weights kernels.WeightFormat) {
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

// BenchmarkQuantizedInCache times few rows on one thread with weights in the second-level cache, in weights
// per cycle, as BenchmarkQuantizedInCache/dtype/format/m. To be memory-bound, a core must reach its share of
// read bandwidth ÷ clock ÷ bytes per weight. The best of b.N blocks counts, for busy machines.
func BenchmarkQuantizedInCache(b *testing.B) {
	dev := open(b, 1)
	const n, k, launches = 256, 2048, 50
	for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
		for _, format := range []string{"int4:128", "int4:128:zero", "int4:64", "int4:32", "int4:32:zero", "int8:128", "int8:32"} {
			weights, err := kernels.ParseWeights(format)
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

// BenchmarkQuantizedBesidePlain alternates quantized and plain weights, as
// BenchmarkQuantizedBesidePlain/dtype/m/format/kernel. "plain" is auto's plain time divided by the quantized
// time; below 1, the parity rule reports a finding. It and the microseconds are medians over pairs of
// launches.
func BenchmarkQuantizedBesidePlain(b *testing.B) {
	dev := open(b, 0)
	for _, d := range []kernels.DType{kernels.FP16, kernels.BF16} {
		for _, m := range []int{2, 4, 8, 12, 16, 24, 32, 64, 128, 512} {
			s := kernels.Shape{M: m, N: 4096, K: 4096}
			plain, _ := rotating(b, dev, "auto", s, d, kernels.WeightFormat{})
			for _, format := range []string{"int4:128", "int8:128"} {
				weights, err := kernels.ParseWeights(format)
				if err != nil {
					b.Fatal(err)
				}
				for _, kernel := range []string{"gemv", "tiled", "amx"} {
					if kernel == "gemv" && m > gemvRows || kernel == "amx" && (d != kernels.BF16 || dev.gemm(kernel) == nil) {
						continue
					}
					b.Run(fmt.Sprintf("%s/m%d/%s/%s", d, m, format, kernel), func(b *testing.B) {
						quantized, _ := rotating(b, dev, kernel, s, d, weights)
						b.ResetTimer()
						var ratios, times []float64
						for i := range b.N {
							var seconds [2]float64
							for k, of := range [][]kernels.Launch{plain, quantized} {
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
