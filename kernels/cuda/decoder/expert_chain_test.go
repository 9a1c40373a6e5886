//go:build cuda

package decoder

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
)

// expertChain has the products of a token through layers with experts.
type expertChain struct {
	*decoderChain
	experts, topK int
	layers        []kernels.FusedExperts
}

// newExpertChain makes a chain whose gated units are replaced by experts. Routers have small weights, so that choices vary.
func newExpertChain(t testing.TB, d gputest.GPU, dt kernels.DType, s decoderShape, experts, topK int, q kernels.WeightFormat) *expertChain {
	t.Helper()
	dense := s
	dense.inner = 128 // not used
	c := &expertChain{newDecoderChain(t, d, dt, dense, q), experts, topK, nil}
	c.shape.inner = s.inner
	c.act = kernels.Operand{Buffer: gputest.Buffer(t, d, int64(topK*s.inner*dt.Size()))}
	hold := func(n, k int, integers bool, seed int) kernels.Weights {
		w := chainWeights(t, d, kernels.Task{Subject: kernels.Linear(dt, n, k), M: 1}, q, integers, uint64(1000+seed))
		t.Cleanup(func() { w.Close() })
		return w
	}
	for layer := range s.layers {
		o := kernels.FusedExperts{Hidden: s.hidden, Inner: s.inner, TopK: topK, DType: dt, Epsilon: 1e-5, X: c.x, Weight: c.norm,
			Inputs: c.act, Router: hold(experts, s.hidden, false, layer),
			Choice: kernels.Operand{Buffer: gputest.Buffer(t, d, kernels.ExpertChoiceBytes(experts, topK))}}
		for e := range experts {
			o.Units = append(o.Units, hold(2*s.inner, s.hidden, true, layer*1000+e))
			o.Outputs = append(o.Outputs, hold(s.hidden, s.inner, true, layer*1000+500+e))
		}
		c.layers = append(c.layers, o)
	}
	return c
}

func (c *expertChain) expertsOf(t testing.TB, i int, plan expertPlan) []kernels.Launch {
	t.Helper()
	ls, err := Operations{c.d.Device}.fuseExperts(c.layers[i], plan)
	if err != nil {
		t.Fatal(err)
	}
	return ls
}

func (c *expertChain) bind(t testing.TB, plan expertPlan) (out []kernels.Launch) {
	t.Helper()
	for i := range c.layers {
		out = append(out, c.one(t, "qkv", i, fusedPlan), c.one(t, "o_proj", i, fusedPlan))
		out = append(out, c.expertsOf(t, i, plan)...)
	}
	return append(out, c.one(t, "lm_head", 0, fusedPlan))
}

// bytes returns those that a token reads: experts counts those of units and outputs.
func (c *expertChain) bytes() (all, experts int64) {
	for _, o := range c.layers {
		experts += int64(c.topK) * (o.Units[0].Bytes() + o.Outputs[0].Bytes())
		all += o.Router.Bytes()
	}
	for _, kind := range []string{"qkv", "o_proj", "lm_head"} {
		for _, w := range c.weights[kind] {
			all += w.Bytes()
		}
	}
	return all + experts, experts
}

// Experts chosen on the device give the same bits one launch at a time, in a block and in a graph.
func TestOverlappedExperts(t *testing.T) {
	d := gputest.First(t)
	if d.Arch().CC != 90 {
		t.Skip("nothing overlaps here, or weights of integers have no fused kernels")
	}
	shapes, tokens, rounds := []decoderShape{
		{hidden: 256, inner: 512, qkv: 384, vocab: 1000, layers: 6}, {hidden: 1024, inner: 3584, qkv: 1536, vocab: 4000, layers: 6},
		{hidden: 4096, inner: 14336, qkv: 6144, vocab: 32000, layers: 1},
	}, 3, 10
	if testing.Short() {
		shapes, tokens, rounds = []decoderShape{{hidden: 512, inner: 768, qkv: 768, vocab: 1000, layers: 2}}, 1, 1
	}
	for _, s := range shapes {
		for _, name := range []string{"plan", "registers", "short ring", "integers"} {
			t.Run(fmt.Sprintf("%d/%s", s.hidden, name), func(t *testing.T) {
				plan := map[string]expertPlan{"plan": expertRole.plan, "registers": registerRole, "short ring": ringRole,
					"integers": expertRole.plan}[name]
				var q kernels.WeightFormat
				if name == "integers" {
					q = kernels.IntegerWeights(4, 128, false)
				}
				c := newExpertChain(t, d, kernels.BF16, s, 8, 2, q)
				launches := c.bind(t, plan)
				g, err := d.Graph(launches)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(g.Label(), "of", launches[3].Label(), "and", launches[4].Label())
				c.repeats(t, d, launches, g, tokens, rounds)
			})
		}
	}
}

// BenchmarkExpertChain measures the products of a token of Mixtral-8x7B, in one graph: the layers' attention apart.
func BenchmarkExpertChain(b *testing.B) {
	d := gputest.First(b)
	ceilings, err := d.Ceilings(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "read %.3f TB/s, copy %.3f TB/s\n", ceilings.ReadBandwidth*1e-12, ceilings.CopyBandwidth*1e-12)
	for _, q := range []kernels.WeightFormat{{}, kernels.IntegerWeights(4, 128, false)} {
		if q.Bits > 0 && d.Arch().CC != 90 {
			continue
		}
		b.Run(fmt.Sprint(q), func(b *testing.B) {
			s := mistral7B
			s.layers = 6
			c := newExpertChain(b, d, kernels.FP16, s, 8, 2, q)
			report := func(name string, launches []kernels.Launch, bytes int64, n int) float64 {
				return c.report(b, d, ceilings, name, launches, bytes, n)
			}
			var kinds [4][]kernels.Launch
			for i := range c.layers {
				ls := c.expertsOf(b, i, expertRole.plan)
				for j, l := range ls {
					kinds[j] = append(kinds[j], l)
				}
				kinds[3] = append(kinds[3], ls...)
			}
			all, experts := c.bytes()
			o := c.layers[0]
			each := int64(c.topK * len(c.layers))
			sizes := []int64{o.Router.Bytes() * int64(len(c.layers)), each * o.Units[0].Bytes(), each * o.Outputs[0].Bytes(), experts}
			for j, bytes := range sizes {
				name := []string{"choice", "units", "outputs", "all of experts"}[j]
				report(fmt.Sprintf("%v %s, %s", q, name, kinds[min(j, 2)][0].Label()), kinds[j], bytes, 20)
			}
			seconds := report(fmt.Sprintf("%v chain without attention", q), c.bind(b, expertRole.plan), all, 20)
			b.ReportMetric(seconds*1e3, "ms/token")
			b.ReportMetric(0, "ns/op") // set-up time has no meaning
		})
	}
}
