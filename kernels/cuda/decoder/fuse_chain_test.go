//go:build cuda

package decoder

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
)

// values are what the chain's products wrote, in float64: the residual stream, the last queries, the inputs of the last down_proj.
func (c *decoderChain) values(t testing.TB) (all [][]float64) {
	t.Helper()
	for _, o := range []struct {
		operand kernels.Operand
		dt      kernels.DType
	}{{c.x, kernels.FP32}, {c.qkv, c.dt}, {c.act, c.dt}} {
		raw := make([]byte, o.operand.Buffer.Bytes())
		v := make([]float64, len(raw)/o.dt.Size())
		for _, err := range []error{o.operand.Buffer.Download(0, raw), kernels.Decode(o.dt, raw, v)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, v)
	}
	return all
}

// TestFuseChain compares chains with their products one by one, in every format. Under compute-sanitizer, with -test.short, it
// shows out-of-bounds accesses and races.
func TestFuseChain(t *testing.T) {
	d := gputest.First(t)
	if d.Arch().CC != 90 {
		t.Skip("there are no chains here")
	}
	shapes := []decoderShape{{hidden: 128, inner: 128, qkv: 173, vocab: 64, layers: 2},
		{hidden: 1152, inner: 3584, qkv: 1533, vocab: 64, layers: 2},
		{hidden: 4096, inner: 14336, qkv: 6144, vocab: 64, layers: 1}}
	if testing.Short() {
		shapes = []decoderShape{{hidden: 384, inner: 512, qkv: 384, vocab: 64, layers: 2}}
	}
	for _, s := range shapes {
		for _, dt := range []kernels.DType{kernels.FP16, kernels.BF16} {
			for _, group := range []int{64, 128, 0} {
				for _, zeros := range []bool{false, true} {
					if s.hidden == 4096 && (group != 128 || zeros) {
						continue
					}
					q := kernels.IntegerWeights(4, group, zeros)
					t.Run(fmt.Sprintf("%d/%s/%v", s.hidden, dt, q), func(t *testing.T) {
						c := newDecoderChain(t, d, dt, s, q)
						run := func(launches []kernels.Launch) [][]float64 {
							c.reset(t)
							if _, err := d.Execute(context.Background(), launches, len(launches)); err != nil {
								t.Fatal(err)
							}
							return c.values(t)
						}
						launches := c.bind(t, fusedPlan)
						run(launches) // first-time launches run twice
						want, got := run(launches), run(c.bindChains(t))
						bound := map[kernels.DType]float64{kernels.FP16: 1e-3, kernels.BF16: 8e-3}[dt]
						for i, name := range []string{"x", "qkv", "inputs"} {
							off, all := 0., 0.
							for j, w := range want[i] {
								off += (got[i][j] - w) * (got[i][j] - w)
								all += w * w
							}
							if off = math.Sqrt(off / all); !(off <= bound) {
								t.Errorf("%s is off by %.2g of its norm, expected at most %g", name, off, bound)
							}
						}
					})
				}
			}
		}
	}
}
