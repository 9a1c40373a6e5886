package cpu

import (
	"context"
	"fmt"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// BenchmarkGemm times every kernel that is here as BenchmarkGemm/kernel/dtype/shape.
// The weights rotate past three times the last-level cache, so that they come from
// memory as they do in an engine. GB/s counts the weights as they are stored.
func BenchmarkGemm(b *testing.B) {
	dev := open(b, 0)
	for _, g := range dev.Gemms() {
		for _, t := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
			for _, s := range []kernels.Shape{{M: 1, N: 14336, K: 4096}, {M: 16, N: 14336, K: 4096}, {M: 128, N: 4096, K: 4096}, {M: 1024, N: 4096, K: 4096}} {
				p := kernels.Problem{Shape: s, DType: t}
				if g.Supports(p) != nil || g.Name() == "naive" && s.M > 1 {
					continue // the triple loop takes minutes
				}
				b.Run(fmt.Sprintf("%s/%s/m%d-n%d-k%d", g.Name(), t, s.M, s.N, s.K), func(b *testing.B) {
					benchmark(b, dev, g, p)
				})
			}
		}
	}
}

func benchmark(b *testing.B, dev *Device, g kernels.Gemm, p kernels.Problem) {
	alloc := func(elements int, t kernels.DType) kernels.Buffer {
		buf, err := dev.Alloc(int64(elements) * int64(t.Size()))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { buf.Close() })
		if err := buf.Fill(kernels.Normal, p.DType, int64(elements)*int64(t.Size())/int64(p.DType.Size()), 1); err != nil {
			b.Fatal(err)
		}
		return buf
	}
	a, c := alloc(p.M*p.K, p.DType), alloc(p.M*p.N, p.DType.Output())
	var launches []kernels.Launch
	var held int64
	for held <= 3*dev.Spec().LastLevelCacheBytes || len(launches) < 2 {
		w, err := g.PrepareWeights(p, alloc(p.N*p.K, p.DType))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { w.Close() })
		l, err := g.Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
		if err != nil {
			b.Fatal(err)
		}
		launches = append(launches, l)
		held += w.Bytes()
	}
	if _, err := dev.Execute(context.Background(), launches, len(launches)); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	span, err := dev.Execute(context.Background(), launches, b.N)
	b.StopTimer()
	if err != nil {
		b.Fatal(err)
	}
	each := span.Seconds / float64(b.N)
	b.ReportMetric(p.FLOPs()/each/1e9, "GFLOP/s")
	b.ReportMetric(float64(p.N*p.K*p.DType.Size())/each/1e9, "GB/s")
	b.ReportMetric(span.ClockMHz, "MHz")
}

// BenchmarkPack times the packing of weights from both layouts.
func BenchmarkPack(b *testing.B) {
	dev := open(b, 0)
	for _, t := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
		for _, layout := range []kernels.Layout{kernels.RowMajor, kernels.Transposed} {
			p := kernels.Problem{Shape: kernels.Shape{M: 1, N: 4096, K: 4096}, DType: t, BLayout: layout}
			b.Run(fmt.Sprintf("%s/%s", t, layout), func(b *testing.B) {
				bytes := int64(p.N * p.K * t.Size())
				raw, err := dev.Alloc(bytes)
				if err != nil {
					b.Fatal(err)
				}
				defer raw.Close()
				if err := raw.Fill(kernels.Normal, t, int64(p.N*p.K), 1); err != nil {
					b.Fatal(err)
				}
				w, err := dev.pack(p, raw)
				if err != nil {
					b.Fatal(err)
				}
				defer w.Close()
				b.SetBytes(bytes)
				for b.Loop() {
					if err := w.repack(dev, raw); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkFill times the generator.
func BenchmarkFill(b *testing.B) {
	dev := open(b, 0)
	for _, t := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
		b.Run(string(t), func(b *testing.B) {
			buf, err := dev.Alloc(64 << 20)
			if err != nil {
				b.Fatal(err)
			}
			defer buf.Close()
			b.SetBytes(buf.Bytes())
			for b.Loop() {
				if err := buf.Fill(kernels.Normal, t, buf.Bytes()/int64(t.Size()), 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
