//go:build cuda

package decoder

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

type fuseCase struct {
	n, k             int
	norm, add, gated bool
	offset           int // of every vector, in elements
	weights          kernels.WeightFormat
}

func (c fuseCase) String() string {
	s := fmt.Sprintf("n%d k%d offset %d %v", c.n, c.k, c.offset, c.weights)
	for _, w := range []struct {
		is   bool
		word string
	}{{c.norm, " norm"}, {c.add, " add"}, {c.gated, " gated"}} {
		if w.is {
			s += w.word
		}
	}
	return s
}

func fuseCases(short bool) []fuseCase {
	all := []fuseCase{
		{n: 24, k: 264, norm: true}, {n: 70, k: 1031, gated: true, offset: 3}, {n: 33, k: 2056, add: true, offset: 1},
	}
	if short {
		return all
	}
	for _, nk := range [][2]int{{1, 1}, {2, 7}, {16, 8}, {40, 130}, {34, 1000}, {2160, 512}, {4096, 264}, {66, 14336}, {130, 9001}} {
		for _, offset := range []int{0, 1, 4} {
			for kind := range 4 {
				c := fuseCase{n: nk[0], k: nk[1], offset: offset, norm: kind == 1 || kind == 3, add: kind == 2, gated: kind == 3}
				if !c.gated || c.n%2 == 0 {
					all = append(all, c)
				}
			}
		}
		if nk[0]%2 == 0 {
			all = append(all, fuseCase{n: nk[0], k: nk[1], gated: true})
		}
	}
	return all
}

func integerCases(short bool) (all []fuseCase) {
	for _, bits := range []int{4, 8} {
		for _, zeros := range []bool{false, true} {
			for _, group := range []int{32, 64, 128, 0} {
				q := kernels.IntegerWeights(bits, group, zeros)
				if short {
					all = append(all, fuseCase{n: 64, k: 1152, gated: true, norm: true, weights: q},
						fuseCase{n: 33, k: 384, add: true, offset: 1, weights: q})
					continue
				}
				for _, nk := range [][2]int{{1, 128}, {24, 384}, {96, 1152}, {320, 4096}, {64, 14336}} {
					for kind := range 4 {
						c := fuseCase{n: nk[0], k: nk[1], offset: kind % 2, norm: kind == 1 || kind == 3, add: kind == 2, gated: kind == 3,
							weights: q}
						if !c.gated || c.n%32 == 0 {
							all = append(all, c)
						}
					}
				}
				if group == 0 {
					all = append(all, fuseCase{n: 130, k: 1000, norm: true, weights: q},
						fuseCase{n: 17, k: 90, add: true, offset: 3, weights: q})
				}
			}
			all = append(all, fuseCase{n: 33900, k: 128, norm: true, weights: kernels.IntegerWeights(bits, 128, zeros)})
		}
	}
	return all
}

type fusePlan func(planning.Arch, kernels.FusedProduct, fusedAddresses) (planning.Call, string)

func fusePlans(a planning.Arch, p kernels.FusedProduct) map[string]fusePlan {
	plans := map[string]fusePlan{
		"registers": func(a planning.Arch, p kernels.FusedProduct, at fusedAddresses) (planning.Call, string) {
			return fusedCall(a, p, at), "registers"
		},
	}
	if r, ok := ringFor(a, p); ok {
		for _, r := range []ring{r, {stages: 2, blocks: 1}, {stages: 3, early: 1000, blocks: 3}} {
			plans[fmt.Sprint(r)] = func(a planning.Arch, p kernels.FusedProduct, at fusedAddresses) (planning.Call, string) {
				return r.call(a, p, at), fmt.Sprint(r)
			}
		}
	}
	return plans
}

func drawn(t testing.TB, d gputest.GPU, r *rand.Rand, dt kernels.DType, n, offset int, scale float64) ([]float64, kernels.Operand) {
	t.Helper()
	values := make([]float64, offset+n)
	for i := range values {
		values[i] = r.NormFloat64() * scale
	}
	raw := make([]byte, len(values)*dt.Size())
	b := gputest.Buffer(t, d, int64(len(raw)))
	for _, err := range []error{kernels.Encode(dt, values, raw), b.Upload(0, raw), kernels.Decode(dt, raw, values)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return values[offset:], kernels.Operand{Buffer: b, Offset: offset}
}

// fusedReference returns the result of a fused product in float64 and each element's error bound: rounding of
// the result, fp32 sums, and a few norm elements that round the other way.
func fusedReference(p kernels.FusedProduct, w, a, x, weight []float64) (want, bound []float64, err error) {
	unit := map[kernels.DType]float64{kernels.FP32: 0x1p-24, kernels.FP16: 0x1p-11, kernels.BF16: 0x1p-8}[p.DType]
	row := a
	if p.Norm {
		squares := 0.0
		for _, v := range x {
			squares += v * v
		}
		row = make([]float64, p.K)
		for i := range row {
			row[i] = x[i] / math.Sqrt(squares/float64(p.K)+p.Epsilon) * weight[i]
		}
		raw := make([]byte, p.K*p.DType.Size())
		if err := kernels.Encode(p.DType, row, raw); err != nil {
			return nil, nil, err
		}
		if err := kernels.Decode(p.DType, raw, row); err != nil {
			return nil, nil, err
		}
	}
	want, bound = make([]float64, p.N), make([]float64, p.N)
	for i := range want {
		all, most := 0.0, 0.0
		for j, v := range row {
			term := w[i*p.K+j] * v
			want[i] += term
			all += math.Abs(term)
			most = max(most, math.Abs(term))
		}
		bound[i] = 0x1p-21 * all
		if p.Norm {
			bound[i] += 8 * unit * most
		}
	}
	switch {
	case p.Add:
		for i := range want {
			want[i] += x[i]
			bound[i] += 0x1p-23 * math.Abs(want[i])
		}
		return want, bound, nil
	case p.Gated:
		h := p.N / 2
		for i := range h {
			gate, up := want[i], want[i+h]
			silu := gate / (1 + math.Exp(-gate))
			want[i] = silu * up
			bound[i] = 1.2*bound[i]*math.Abs(up) + math.Abs(silu)*bound[i+h] + 1.2*bound[i]*bound[i+h] + 0x1p-20*math.Abs(want[i])
		}
		want, bound = want[:h], bound[:h]
	}
	for i := range want {
		bound[i] += 2*unit*math.Abs(want[i]) + 0x1p-24
	}
	return want, bound, nil
}

func fusedOperands(t testing.TB, d gputest.GPU, c fuseCase,
	dt kernels.DType) (p kernels.FusedProduct, want, bound []float64, reset func(), out kernels.Operand, outType kernels.DType) {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(c.n), uint64(c.k)))
	p = kernels.FusedProduct{N: c.n, K: c.k, DType: dt, Norm: c.norm, Add: c.add, Gated: c.gated, Epsilon: 1e-5}
	w, wo := drawn(t, d, r, dt, c.n*c.k, 0, 1/math.Sqrt(float64(c.k)))
	product := kernels.Task{Subject: kernels.Linear(dt, c.n, c.k), M: 1}
	var weights kernels.Weights
	var err error
	if c.weights.Bits > 0 {
		weights, w = rounded(t, d, product, c.weights, w)
	} else if weights, err = d.Pack(product, wo.Buffer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := weights.Close(); err != nil {
			t.Error(err)
		}
	})
	p.Weights = weights
	var a, x, weight []float64
	if c.norm {
		x, p.X = drawn(t, d, r, kernels.FP32, c.k, c.offset, 3)
		weight, p.Weight = drawn(t, d, r, dt, c.k, c.offset, 1)
	} else {
		a, p.A = drawn(t, d, r, dt, c.k, c.offset, 1)
	}
	length := c.n
	switch {
	case c.add:
		x, p.X = drawn(t, d, r, kernels.FP32, c.n, c.offset, 3)
		out, outType = p.X, kernels.FP32
	case c.gated:
		length = c.n / 2
		fallthrough
	default:
		_, p.C = drawn(t, d, r, dt, length+5, c.offset, math.NaN())
		out, outType = p.C, dt
	}
	if want, bound, err = fusedReference(p, w, a, x, weight); err != nil {
		t.Fatal(err)
	}
	before := make([]byte, out.Buffer.Bytes())
	if err := out.Buffer.Download(0, before); err != nil {
		t.Fatal(err)
	}
	reset = func() {
		if err := out.Buffer.Upload(0, before); err != nil {
			t.Fatal(err)
		}
	}
	return p, want, bound, reset, out, outType
}

func rounded(t testing.TB, d gputest.GPU, p kernels.Task, q kernels.WeightFormat, values []float64) (kernels.Weights, []float64) {
	t.Helper()
	f, err := q.For(p.DType, p.K)
	if err != nil {
		t.Fatal(err)
	}
	m, err := kernels.Quantize(f, p.N, p.K, values)
	if err != nil {
		t.Fatal(err)
	}
	raw := m.Raw()
	b := gputest.Buffer(t, d, int64(len(raw)))
	if err := b.Upload(0, raw); err != nil {
		t.Fatal(err)
	}
	w, err := d.PackRecords(p.WithWeights(f), b)
	if err != nil {
		t.Fatal(err)
	}
	return w, m.Values(kernels.FP32) // exact: 11 significant bits times 8
}

// TestFuse compares every plan of a fused product with float64. Under compute-sanitizer, with -test.short, it
// shows out-of-bounds accesses and races.
func TestFuse(t *testing.T) {
	d := gputest.First(t)
	for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
		t.Run(dt.String(), func(t *testing.T) {
			if reason := planning.TypeReason(d.Arch(), dt); reason != "" {
				t.Skip(reason)
			}
			worst := map[string]float64{}
			cases := fuseCases(testing.Short())
			if d.Arch().CC == 90 && dt != kernels.FP32 {
				cases = append(cases, integerCases(testing.Short())...)
			}
			for _, c := range cases {
				p, want, bound, reset, out, outType := fusedOperands(t, d, c, dt)
				plans := fusePlans(d.Arch(), p)
				if c.weights.Bits > 0 {
					plans = map[string]fusePlan{"integers": nil} // there is one
				}
				for name, plan := range plans {
					reset()
					l, err := Operations{d.Device}.fuse(p, plan)
					if err != nil {
						t.Fatalf("%v: %v", c, err)
					}
					if _, err := d.Once(l); err != nil {
						t.Fatalf("%v: %v", c, err)
					}
					raw := make([]byte, out.Buffer.Bytes())
					got := make([]float64, len(raw)/outType.Size())
					for _, err := range []error{out.Buffer.Download(0, raw), kernels.Decode(outType, raw, got)} {
						if err != nil {
							t.Fatal(err)
						}
					}
					for i, w := range want {
						off := math.Abs(got[out.Offset+i]-w) / bound[i]
						if worst[name] = max(worst[name], off); !(off <= 1) {
							t.Fatalf("%v, %s: element %d is %g, want %g, off by %.2f of the bound", c, name, i, got[out.Offset+i], w, off)
						}
					}
					if !p.Add {
						for i, g := range got {
							if (i < out.Offset || i >= out.Offset+len(want)) && !math.IsNaN(g) {
								t.Fatalf("%v, %s: element %d outside of C was written", c, name, i-out.Offset)
							}
						}
					}
				}
			}
			t.Logf("of the bound used: %v", worst)
		})
	}
}

func TestFuseRefuses(t *testing.T) {
	d := gputest.First(t)
	p, _, _, _, _, _ := fusedOperands(t, d, fuseCase{n: 64, k: 128, norm: true}, kernels.FP16)
	for _, c := range []struct {
		change func(*kernels.FusedProduct)
		want   string
	}{
		{func(p *kernels.FusedProduct) { p.Add = true },
			"fuse n64 k128 fp16: operand X is both normalized and added to: expected one of the two"},
		{func(p *kernels.FusedProduct) { p.N = 0 }, "fuse n0 k128 fp16: "},
		{func(p *kernels.FusedProduct) { p.DType = kernels.INT8 },
			"fuse n64 k128 int8: fused products are of fp32, fp16 and bf16, not int8"},
		{func(p *kernels.FusedProduct) { p.K = 256 }, "weights were packed for n64 k128 fp16"},
		{func(p *kernels.FusedProduct) { p.Weights = nil }, "weights are a <nil>, not packed by kernel fuse"},
		{func(p *kernels.FusedProduct) { p.Epsilon = math.NaN() }, "epsilon is NaN: expected at least 0"},
		{func(p *kernels.FusedProduct) { p.X.Offset = 1 },
			"operand X: 1 rows of 128 with leading dimension 128 at offset 1 need 129 elements of fp32, the buffer has 128"},
		{func(p *kernels.FusedProduct) { p.Weight.Buffer = nil }, "operand Weight: its buffer is a <nil>"},
		{func(p *kernels.FusedProduct) { p.C.Offset = 100 }, "operand C: 1 rows of 64"},
		{func(p *kernels.FusedProduct) { p.Norm = false }, "operand A: its buffer is a <nil>"},
		{func(p *kernels.FusedProduct) { p.Norm, p.Add, p.Gated = false, true, true }, "a gated unit is added to X"},
	} {
		q := p
		c.change(&q)
		if l, err := (Operations{d.Device}).Fuse(q); err == nil || !bytes.Contains([]byte(err.Error()), []byte(c.want)) || l != nil {
			t.Errorf("got %v, %v, want %s", l, err, c.want)
		}
	}
}

// Overlapping kernels, in a block and in a graph, give the same bits as one launch at a time. Products range
// from several resident at once to many waves.
func TestOverlappedChain(t *testing.T) {
	d := gputest.First(t)
	if d.Arch().CC != 90 {
		t.Skip("nothing overlaps here, or weights of integers have no fused kernels")
	}
	shapes, tokens, rounds := []decoderShape{
		{hidden: 256, inner: 512, qkv: 384, vocab: 1000, layers: 6},
		{hidden: 1024, inner: 3584, qkv: 1536, vocab: 4000, layers: 6},
		{hidden: 4096, inner: 14336, qkv: 6144, vocab: 32000, layers: 2},
	}, 3, 10
	if testing.Short() { // minimum to wrap around its rings
		shapes, tokens, rounds = []decoderShape{{hidden: 1024, inner: 3584, qkv: 1536, vocab: 4000, layers: 1}}, 1, 1
	}
	for _, s := range shapes {
		for _, name := range []string{"plan", "registers", "short ring", "integers", "chains"} {
			t.Run(fmt.Sprintf("%d/%s", s.hidden, name), func(t *testing.T) {
				plan := map[string]fusePlan{"plan": fusedPlan, "registers": registersPlan, "short ring": ringPlan(3, 1000, 3),
					"integers": fusedPlan}[name]
				var q kernels.WeightFormat
				if name == "integers" || name == "chains" {
					q = kernels.IntegerWeights(4, 128, false)
				}
				c := newDecoderChain(t, d, kernels.BF16, s, q)
				var launches []kernels.Launch
				if name == "chains" {
					launches = c.bindChains(t)
				} else {
					launches = c.bind(t, plan)
				}
				g, err := d.Graph(launches)
				if err != nil {
					t.Fatal(err)
				}
				t.Log(g.Label(), "of", launches[0].Label())
				c.repeats(t, d, launches, g, tokens, rounds)
				if _, err := d.Execute(context.Background(), []kernels.Launch{g}, 1); err == nil {
					t.Error("a closed graph ran")
				}
			})
		}
	}
}

// A graph of launches that never ran runs each as often as requested; capture runs none of them.
func TestGraphRunsOnce(t *testing.T) {
	d := gputest.First(t)
	p, want, _, reset, out, _ := fusedOperands(t, d, fuseCase{n: 4096, k: 128, add: true}, kernels.FP16)
	l, err := Operations{d.Device}.Fuse(p)
	if err != nil {
		t.Fatal(err)
	}
	reset()
	g, err := d.Graph([]kernels.Launch{l, l})
	if err != nil {
		t.Fatal(err)
	}
	before, once := make([]float64, p.N), make([]float64, p.N)
	raw := make([]byte, 4*p.N)
	read := func(to []float64) {
		t.Helper()
		for _, err := range []error{out.Buffer.Download(0, raw), kernels.Decode(kernels.FP32, raw, to)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	read(before)
	if _, err := d.Execute(context.Background(), []kernels.Launch{g}, 3); err != nil {
		t.Fatal(err)
	}
	read(once)
	for i := range want {
		if step := want[i] - before[i]; step > 0.1 && (once[i]-before[i] < 5.9*step || once[i]-before[i] > 6.1*step) {
			t.Fatalf("element %d grew from %g to %g, by %g each time: expected six times", i, before[i], once[i], step)
		}
	}
	if err := g.(io.Closer).Close(); err != nil {
		t.Error(err)
	}
}
