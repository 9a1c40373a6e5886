//go:build cuda

package cuda_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// blockSeconds is the length of one sample in seconds, unless a launch is longer.
const blockSeconds = 2e-3

type decoderBench struct {
	*testing.B
	d *cuda.Device
}

func newDecoderBench(b *testing.B) decoderBench {
	devices, missing := cuda.Provider{}.Open()
	if len(devices) == 0 {
		b.Skipf("no GPU: %v", missing)
	}
	b.Cleanup(func() {
		for _, d := range devices {
			d.Close()
		}
	})
	return decoderBench{b, devices[0].(*cuda.Device)}
}

func (b decoderBench) buffer(n int, dt kernels.DType) kernels.Operand {
	b.Helper()
	buffer, err := b.d.Alloc(int64(n) * int64(dt.Size()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { buffer.Close() })
	if dt == kernels.INT32 {
		return kernels.Operand{Buffer: buffer}
	}
	if err := buffer.Fill(kernels.Normal, dt, int64(n), 1); err != nil {
		b.Fatal(err)
	}
	return kernels.Operand{Buffer: buffer}
}

func (b decoderBench) copies(bytes int64) int {
	return int(3*b.d.Spec().LastLevelCacheBytes/bytes) + 1
}

func (b decoderBench) report(launches []kernels.Launch, bytes float64) {
	b.Helper()
	n := 0
	var samples []float64
	for i := range b.N + 1 {
		span, err := b.d.Execute(context.Background(), launches, max(n, len(launches)))
		if err != nil {
			b.Fatal(err)
		}
		if i == 0 {
			n = int(min(max(blockSeconds/(span.Seconds/float64(len(launches))), 1), 4000))
			continue
		}
		samples = append(samples, span.Seconds/float64(n))
	}
	seconds := stats.Median(samples)
	b.ReportMetric(seconds*1e6, "us")
	b.ReportMetric(bytes/seconds/1e12, "TB/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDecodeAttention measures one row against the caches of several layers in turn, so keys and values
// come from memory. Rotated includes rotation and append in the same launch.
func BenchmarkDecodeAttention(b *testing.B) {
	g := newDecoderBench(b)
	h := kernels.Heads{Query: 32, KV: 8, Dim: 128}
	for _, dt := range []kernels.DType{kernels.BF16, kernels.FP16, kernels.FP32} {
		for _, keys := range []int{128, 1024, 4096, 32768} {
			for _, rotated := range []bool{false, true} {
				name := fmt.Sprintf("%s/%d", dt, keys)
				if rotated {
					name += "/rotated"
				}
				b.Run(name, func(b *testing.B) {
					g := decoderBench{b, g.d}
					const capacity = 32768
					bytes := int64(2*h.KV*keys*h.Dim) * int64(dt.Size())
					position := g.buffer(1, kernels.INT32)
					if err := position.Buffer.Upload(0, []byte{byte(keys - 1), byte((keys - 1) >> 8), 0, 0}); err != nil {
						b.Fatal(err)
					}
					qkv, out, table := g.buffer(h.Width(), dt), g.buffer(h.Query*h.Dim, dt), g.buffer(capacity*h.Dim, kernels.FP32)
					size := (keys + kernels.CacheGranule) / kernels.CacheGranule * kernels.CacheGranule
					layers := g.copies(bytes)
					k, v := g.buffer(layers*h.KV*size*h.Dim, dt), g.buffer(layers*h.KV*size*h.Dim, dt)
					var launches []kernels.Launch
					for range layers {
						cache := kernels.KVCache{Capacity: size, Keys: k, Values: v}
						k.Offset += h.KV * size * h.Dim
						v.Offset += h.KV * size * h.Dim
						o := kernels.Attention{
							Rows: 1, Heads: h, DType: dt, Scale: 0.088, Q: qkv, LDQ: h.Width(), Position: position, Length: size,
							Cache: cache, Out: out,
						}
						r := kernels.Rotation{Rows: 1, Heads: h, DType: dt, QKV: qkv, Position: position, Table: table, Positions: capacity,
							Cache: cache}
						var l kernels.Launch
						var err error
						if rotated {
							l, err = g.d.RotateAttend(r, o)
						} else {
							l, err = g.d.Attend(o)
						}
						if err != nil {
							b.Fatal(err)
						}
						launches = append(launches, l)
					}
					g.report(launches, float64(bytes))
				})
			}
		}
	}
}

// BenchmarkOperations measures a decoder's operations between products: one row is bound by launches, a
// prefill by memory.
func BenchmarkOperations(b *testing.B) {
	g := newDecoderBench(b)
	const dt, hidden, inner, vocab = kernels.BF16, 4096, 14336, 32768
	h := kernels.Heads{Query: 32, KV: 8, Dim: 128}
	for _, rows := range []int{1, 4096} {
		run := func(name string, bytes int64, bind func(g decoderBench) (kernels.Launch, error)) {
			b.Run(fmt.Sprintf("%s/%d", name, rows), func(b *testing.B) {
				g := decoderBench{b, g.d}
				var launches []kernels.Launch
				for range min(g.copies(bytes), 8) {
					l, err := bind(g)
					if err != nil {
						b.Fatal(err)
					}
					launches = append(launches, l)
				}
				g.report(launches, float64(bytes))
			})
		}
		zero := func(g decoderBench, n int) kernels.Operand {
			o := g.buffer(n, kernels.INT32)
			if err := o.Buffer.Upload(0, make([]byte, 4*n)); err != nil {
				g.Fatal(err)
			}
			return o
		}
		wide := int64(rows)
		run("embed", wide*hidden*6, func(g decoderBench) (kernels.Launch, error) {
			return g.d.Embed(kernels.Embedding{
				Rows: rows, Hidden: hidden, Vocab: vocab, DType: dt,
				Tokens: zero(g, rows), Table: g.buffer(vocab*hidden, dt), X: g.buffer(rows*hidden, kernels.FP32),
			})
		})
		run("normalize", wide*hidden*12, func(g decoderBench) (kernels.Launch, error) {
			return g.d.Normalize(kernels.Normalization{
				Rows: rows, Hidden: hidden, DType: dt, Epsilon: 1e-5, X: g.buffer(rows*hidden, kernels.FP32),
				Delta: g.buffer(rows*hidden, dt), Weight: g.buffer(hidden, dt), Out: g.buffer(rows*hidden, dt),
			})
		})
		run("rotate", wide*int64(2*(h.Query+h.KV)*h.Dim+3*h.KV*h.Dim)*2, func(g decoderBench) (kernels.Launch, error) {
			const capacity = 4096
			return g.d.Rotate(kernels.Rotation{
				Rows: rows, Heads: h, DType: dt, QKV: g.buffer(rows*h.Width(), dt), Position: zero(g, 1),
				Table: g.buffer(capacity*h.Dim, kernels.FP32), Positions: capacity,
				Cache: kernels.KVCache{Capacity: capacity, Keys: g.buffer(capacity*h.KV*h.Dim, dt),
					Values: g.buffer(capacity*h.KV*h.Dim, dt)},
			})
		})
		run("gate", wide*inner*6, func(g decoderBench) (kernels.Launch, error) {
			return g.d.Activate(kernels.GatedUnit{Rows: rows, Inner: inner, DType: dt, GateUp: g.buffer(2*rows*inner, dt),
				Out: g.buffer(rows*inner, dt)})
		})
	}
	for _, n := range []int{vocab, 1 << 18} {
		b.Run(fmt.Sprintf("choose/%d", n), func(b *testing.B) {
			g := decoderBench{b, g.d}
			one := func() kernels.Operand {
				o := g.buffer(1, kernels.INT32)
				if err := o.Buffer.Upload(0, make([]byte, 4)); err != nil {
					b.Fatal(err)
				}
				return o
			}
			l, err := g.d.Choose(kernels.TokenChoice{Vocab: n, DType: kernels.FP32, Logits: g.buffer(n, kernels.FP32), Token: one(),
				Position: one()})
			if err != nil {
				b.Fatal(err)
			}
			g.report([]kernels.Launch{l}, float64(4*n))
		})
	}
}
