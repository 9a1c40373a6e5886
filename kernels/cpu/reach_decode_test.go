package cpu

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// BenchmarkReachDecode runs the GEMMs of one token of a 1.1B-parameter model back to back and compares with
// the read bandwidth: all together, as in a decoder, and each shape alone, with plain and integer weights.
func BenchmarkReachDecode(b *testing.B) {
	d := openBench(b)
	var all []*kerneltest.Series
	var goals []goal
	add := func(name string, sample func() (float64, error)) *kerneltest.Series {
		s := &kerneltest.Series{Name: name, Sample: sample}
		all = append(all, s)
		return s
	}
	_, pass := openReader(b, d)
	read := add("read bandwidth", meanOf(4, pass))
	w := newWorkload(b, d)
	formats := []string{"plain", "int4:128", "int8:128"}
	for _, dt := range []kernels.DType{kernels.FP16, kernels.BF16} {
		for _, format := range formats {
			weights, err := kernels.ParseWeights(format)
			if err != nil {
				b.Fatal(err)
			}
			var token []kernels.Launch
			var bytes float64
			for _, s := range []kernels.Shape{
				{M: 1, N: 2560, K: 2048}, {M: 1, N: 2048, K: 2048}, {M: 1, N: 11264, K: 2048}, {M: 1, N: 2048, K: 5632},
				{M: 1, N: 32000, K: 2048},
			} {
				p, held, head := kernels.Task{Subject: kernels.Product(dt, s.N, s.K), M: s.M}, format, s.N == 32000
				var r *rotation
				if weights.Bits > 0 && !head {
					r, err = w.integers(p, weights)
				} else {
					held = "plain" // an lm_head
					r, err = w.rotation("auto", p)
				}
				if err != nil {
					b.Fatal(err)
				}
				if held == format {
					single := add(fmt.Sprintf("auto/%s/%s/%v", dt, format, s), r.bandwidth)
					goals = append(goals, goal{fmt.Sprintf("%s_%s_n%d_k%d/read", dt, format, s.N, s.K), single, read, 0})
				}
				copies := 22 // layers
				if head {
					copies = 1
				}
				for i := range copies {
					token = append(token, r.launches[i%len(r.launches)])
					bytes += float64(r.bytes)
				}
			}
			ordered := make([]kernels.Launch, 0, len(token))
			for layer := range 22 {
				for product := range 4 {
					ordered = append(ordered, token[product*22+layer])
				}
			}
			ordered = append(ordered, token[len(token)-1])
			together := add(fmt.Sprintf("auto/%s/%s/one token", dt, format), func() (float64, error) {
				span, err := d.Execute(context.Background(), ordered, len(ordered))
				return bytes / span.Seconds, err
			})
			goals = append(goals, goal{fmt.Sprintf("%s_%s_token/read", dt, format), together, read, 0.85})
		}
	}
	heads := kernels.Heads{Query: 32, KV: 8, Dim: 128}
	for _, dt := range []kernels.DType{kernels.FP16, kernels.BF16} {
		const keys = 4096
		bytes := float64(2 * keys * heads.KV * heads.Dim * dt.Size())
		var layers []kernels.Launch
		for float64(len(layers))*bytes < 3*float64(d.Spec().LastLevelCacheBytes) {
			l, err := d.Attend(attention(b, d, dt, 1, heads, keys-1, 0))
			if err != nil {
				b.Fatal(err)
			}
			layers = append(layers, l)
		}
		s := add(fmt.Sprintf("attention/%s/%d keys", dt, keys), func() (float64, error) {
			span, err := d.Execute(context.Background(), layers, len(layers))
			return bytes * float64(len(layers)) / span.Seconds, err
		})
		goals = append(goals, goal{fmt.Sprintf("attention_%s/read", dt), s, read, 0})
	}
	kerneltest.MeasureRounds(b, all)
	fmt.Fprint(os.Stderr, "\n", reachTable(d, all, goals, nil))
	for _, g := range goals {
		b.ReportMetric(stats.Median(kerneltest.Ratios(g.a, g.b)), g.metric)
	}
	b.ReportMetric(0, "ns/op") // the round's length is meaningless
}
