package cpu

import (
	"context"
	"fmt"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// BenchmarkAttention times attention with 32 query heads and 8 KV heads of dimension 128. With one row,
// caches rotate through three times the last-level cache, and GB/s counts the keys and values read. With many
// rows, FLOP/s counts both products.
func BenchmarkAttention(b *testing.B) {
	dev := open(b, 0)
	heads := kernels.Heads{Query: 32, KV: 8, Dim: 128}
	for _, dt := range []kernels.DType{kernels.FP16, kernels.BF16, kernels.FP32} {
		for _, c := range []struct{ rows, position, window int }{
			{1, 127, 0}, {1, 1023, 0}, {1, 4095, 0}, {1, 16383, 4096}, {4, 4092, 0}, {512, 0, 0}, {2048, 0, 0}, {512, 4096, 1024},
		} {
			b.Run(fmt.Sprintf("%s/rows%d-position%d-window%d", dt, c.rows, c.position, c.window), func(b *testing.B) {
				var pairs float64
				for i := range c.rows {
					n := c.position + i + 1
					if c.window > 0 {
						n = min(n, c.window)
					}
					pairs += float64(n)
				}
				bytes := pairs / float64(c.rows) * float64(2*heads.KV*heads.Dim*dt.Size())
				var launches []kernels.Launch
				for len(launches) == 0 || c.rows == 1 && float64(len(launches))*bytes < 3*float64(dev.Spec().LastLevelCacheBytes) {
					l, err := dev.Attend(attention(b, dev, dt, c.rows, heads, c.position, c.window))
					if err != nil {
						b.Fatal(err)
					}
					launches = append(launches, l)
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
				b.ReportMetric(each*1e6, "us")
				if c.rows == 1 {
					b.ReportMetric(bytes/each/1e9, "GB/s")
				}
				b.ReportMetric(pairs*float64(4*heads.Query*heads.Dim)/each/1e9, "GFLOP/s")
			})
		}
	}
}
