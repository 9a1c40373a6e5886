package cpu

import (
	"context"
	"fmt"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// BenchmarkGemm times all available kernels as BenchmarkGemm/kernel/dtype/shape. Weights rotate through three
// times the last-level cache, so they come from memory as in an engine. GB/s counts weights as stored.
func BenchmarkGemm(b *testing.B) {
	dev := open(b, 0)
	for _, g := range dev.Kernels(kernels.GEMM) {
		for _, t := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
			for _, s := range []kernels.Shape{{M: 1, N: 14336, K: 4096}, {M: 16, N: 14336, K: 4096}, {M: 128, N: 4096, K: 4096},
				{M: 1024, N: 4096, K: 4096}} {
				p := kernels.Task{Subject: kernels.Product(t, s.N, s.K), M: s.M}
				if g.Supports(p) != nil || g.Name() == "naive" && s.M > 1 {
					continue // naive takes minutes
				}
				b.Run(fmt.Sprintf("%s/%s/m%d-n%d-k%d", g.Name(), t, s.M, s.N, s.K), func(b *testing.B) {
					benchmark(b, dev, g, p)
				})
			}
		}
	}
}

func benchmark(b *testing.B, dev *Device, g kernels.Kernel, p kernels.Task) {
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
		w, err := g.Prepare(p, alloc(p.N*p.K, p.DType))
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
	b.ReportMetric(p.Shape().FLOPs()/each/1e9, "GFLOP/s")
	b.ReportMetric(float64(p.N*p.K*p.DType.Size())/each/1e9, "GB/s")
	b.ReportMetric(span.ClockMHz, "MHz")
}

func BenchmarkPack(b *testing.B) {
	dev := open(b, 0)
	for _, t := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
		for _, layout := range []kernels.Layout{kernels.RowMajor, kernels.Transposed} {
			p := kernels.Task{Subject: kernels.Product(t, 4096, 4096).In(layout), M: 1}
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
					if err := w.(*packedWeights).repack(dev, raw); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

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
