//go:build cuda

package attention

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func attends(d gputest.GPU, f attentionFamily) func(kernels.Attention) (kernels.Launch, error) {
	return NewWay(d.Device, f.Name(), "", f).Attend
}

func caseProblem(t *testing.T, c kernels.AttentionCase) Problem {
	t.Helper()
	c, err := c.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProblem(kernels.Attention{
		Rows: c.Rows, Heads: c.Heads, DType: c.DType, Window: c.Window, Scale: c.Scale, LDQ: c.LDQ, Length: c.Length,
		Cache: kernels.KVCache{Capacity: c.Capacity},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.aligned = planning.AlignmentOf(0, int64(c.LDQ*c.DType.Size()))
	return p
}

func gateAttention(t *testing.T, cases func(d kernels.DType, dim int) []kernels.AttentionCase) {
	d := gputest.First(t)
	for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
		for _, dim := range []int{64, 80, 128} {
			t.Run(fmt.Sprintf("%s/%d", dt, dim), func(t *testing.T) {
				ran, margins := map[string]int{}, map[string]float64{}
				for c, check := range attentionChecks(t, cases(dt, dim)) {
					p := caseProblem(t, c)
					for _, f := range attentionFamilies {
						for _, way := range cudatest.Ways(d.Arch(), f, p) {
							label := f.Name() + " " + way.Plan(d.Arch(), p).Label
							m, err := check.Margin(context.Background(), d, attends(d, way))
							if err != nil {
								t.Errorf("%s: %v", label, err)
							}
							margins[f.Name()] = max(margins[f.Name()], m)
							ran[label]++
						}
					}
				}
				if len(ran) == 0 {
					t.Skip("nothing of this type")
				}
				for name, m := range margins {
					t.Logf("%s: margin %.3f", name, m)
				}
				t.Logf("%d ways: %v", len(ran), ran)
			})
		}
	}
}

func attentionChecks(t *testing.T, cases []kernels.AttentionCase) iter.Seq2[kernels.AttentionCase, *kernels.AttentionCheck] {
	const ahead = 6
	return func(yield func(kernels.AttentionCase, *kernels.AttentionCheck) bool) {
		type made struct {
			check *kernels.AttentionCheck
			err   error
		}
		results := make([]chan made, len(cases))
		begin := func(i int) {
			if i < len(cases) {
				results[i] = make(chan made, 1)
				go func() {
					check, err := kernels.NewAttentionCheck(cases[i], 1)
					results[i] <- made{check, err}
				}()
			}
		}
		for i := range ahead {
			begin(i)
		}
		for i, c := range cases {
			begin(i + ahead)
			r := <-results[i]
			if r.err != nil {
				t.Fatal(r.err)
			}
			if !yield(c, r.check) {
				return
			}
		}
	}
}

func TestAttentionGate(t *testing.T) { gateAttention(t, kernels.AttentionCases) }

// smallAttentions are small enough for tools that check every access. They have tails, a start inside a tile,
// a wrapped ring, and a window.
func smallAttentions(d kernels.DType, dim int) []kernels.AttentionCase {
	heads := kernels.Heads{Query: 4, KV: 2, Dim: dim}
	cases := []kernels.AttentionCase{
		{Rows: 1, Heads: heads, DType: d, Position: 300},
		{Rows: 33, Heads: heads, DType: d, Position: 250, LDQ: heads.Width()},
		{Rows: 150, Heads: heads, DType: d, Position: 1000, Window: 100, Capacity: 256},
	}
	if testing.Short() {
		return cases[:2]
	}
	return append(cases, kernels.AttentionCase{Rows: 300, Heads: heads, DType: d})
}

func TestSmallAttention(t *testing.T) { gateAttention(t, smallAttentions) }

type attentionBench struct {
	rows, position, window, dim int
	dtype                       kernels.DType
}

func (b attentionBench) String() string {
	s := fmt.Sprintf("%s %d rows at %d, dim %d", b.dtype, b.rows, b.position, b.dim)
	if b.window > 0 {
		s += fmt.Sprintf(" window %d", b.window)
	}
	return s
}

func (b attentionBench) operands(t testing.TB, d gputest.GPU) kernels.Attention {
	o := kernels.Attention{
		Rows: b.rows, Heads: kernels.Heads{Query: 32, KV: 8, Dim: b.dim}, DType: b.dtype, Window: b.window,
		Scale: 1 / math.Sqrt(float64(b.dim)), Length: b.rows + b.position,
	}
	o.LDQ = o.Heads.Width()
	o.Cache.Capacity = planning.DivideUp(o.Length, kernels.CacheGranule) * kernels.CacheGranule
	fill := func(elements int, seed uint64) kernels.Operand {
		buf := gputest.Buffer(t, d, int64(elements)*2)
		if err := buf.Fill(kernels.Normal, b.dtype, int64(elements), seed); err != nil {
			t.Fatal(err)
		}
		return kernels.Operand{Buffer: buf}
	}
	plane := o.Heads.KV * o.Cache.Capacity * b.dim
	o.Q, o.Cache.Keys, o.Cache.Values = fill(b.rows*o.LDQ, 1), fill(plane, 2), fill(plane, 3)
	o.Out = kernels.Operand{Buffer: gputest.Buffer(t, d, int64(b.rows*o.Heads.Query*b.dim)*2)}
	position := gputest.Buffer(t, d, 4)
	if err := position.Upload(0, binary.LittleEndian.AppendUint32(nil, uint32(b.position))); err != nil {
		t.Fatal(err)
	}
	o.Position = kernels.Operand{Buffer: position}
	return o
}

// BenchmarkAttention measures all variants of flash in interleaved rounds, with 4·Dim operations for each
// pair of a row and a key. GEMMAUDIT_ATTENTION selects cases by a substring of their name.
func BenchmarkAttention(b *testing.B) {
	d := gputest.First(b)
	var cases []attentionBench
	for _, dt := range []kernels.DType{kernels.BF16, kernels.FP16} {
		for _, dim := range []int{128, 64} {
			for _, rows := range []int{2048, 8192, 16384} {
				cases = append(cases, attentionBench{rows, 0, 0, dim, dt})
			}
			cases = append(cases, attentionBench{16384, 0, 4096, dim, dt}, attentionBench{512, 4096, 0, dim, dt},
				attentionBench{128, 0, 0, dim, dt})
		}
	}
	for _, c := range cases {
		if !strings.Contains(c.String(), os.Getenv("GEMMAUDIT_ATTENTION")) {
			continue
		}
		b.Run(strings.ReplaceAll(c.String(), " ", "_"), func(b *testing.B) {
			o := c.operands(b, d)
			p, _, err := Ladder{d.Device}.Operands(o)
			if err != nil {
				b.Fatal(err)
			}
			var all []*kerneltest.Series
			clocks := map[string]float64{}
			for _, way := range cudatest.Ways(d.Arch(), attentionFamily(flash{}), p) {
				l, err := attends(d, way)(o)
				if err != nil {
					b.Fatal(err)
				}
				seconds := func(n int) (float64, error) {
					span, err := d.Execute(context.Background(), []kernels.Launch{l}, n)
					clocks[l.Label()] = span.ClockMHz
					return span.Seconds / float64(n), err
				}
				once, err := seconds(1)
				if err != nil {
					b.Fatal(err)
				}
				n := int(min(max(4e-3/once, 1), 400))
				all = append(all, &kerneltest.Series{Name: l.Label(), Sample: func() (float64, error) { return seconds(n) }})
			}
			kerneltest.MeasureRounds(b, all)
			best := 0.0
			for _, s := range all {
				mid := stats.Median(s.Samples)
				rate := p.flops() / mid / 1e12
				best = max(best, rate)
				fmt.Fprintf(os.Stderr, "%-44s %-32s %9.2f us %7.1f TFLOP/s at %4.0f MHz\n", c, s.Name, mid*1e6, rate, clocks[s.Name])
			}
			b.ReportMetric(best, "TFLOP/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
