//go:build cuda

package decoder

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

type expertCase struct {
	hidden, inner, experts, topK int
	offset                       int // of X and the normalization weight, in elements: whole pieces of 16 bytes
	weights                      kernels.WeightFormat
}

func (c expertCase) String() string {
	return fmt.Sprintf("h%d i%d, %d of %d experts, offset %d %v", c.hidden, c.inner, c.topK, c.experts, c.offset, c.weights)
}

func expertCases(short bool, dt kernels.DType) (all []expertCase) {
	if short {
		all = []expertCase{{hidden: 264, inner: 136, experts: 5, topK: 2}}
	} else {
		all = []expertCase{
			{hidden: 8, inner: 8, experts: 1, topK: 1}, {hidden: 64, inner: 130, experts: 4, topK: 1, offset: 8},
			{hidden: 96, inner: 57, experts: 9, topK: 3}, {hidden: 1032, inner: 64, experts: 16, topK: 4, offset: 16},
			{hidden: 4096, inner: 40, experts: 8, topK: 2}, {hidden: 40, inner: 5000, experts: 32, topK: 2},
			{hidden: 136, inner: 2056, experts: 6, topK: 6, offset: 24}, {hidden: 5000, inner: 24, experts: 12, topK: 2},
			{hidden: 40000, inner: 16, experts: 2, topK: 2},
		}
	}
	if dt == kernels.FP32 {
		return all
	}
	for _, zeros := range []bool{false, true} {
		for _, group := range []int{32, 64, 128, 0} {
			q := kernels.IntegerWeights(4, group, zeros)
			all = append(all, expertCase{hidden: 384, inner: 256, experts: 4, topK: 2, weights: q})
			if short {
				continue
			}
			all = append(all, expertCase{hidden: 2176, inner: 128, experts: 4, topK: 2, weights: q},
				expertCase{hidden: 128, inner: 4096, experts: 5, topK: 3, offset: 8, weights: q})
		}
		if !short { // several times 16 rows a block
			q := kernels.IntegerWeights(4, 128, zeros)
			all = append(all, expertCase{hidden: 9216, inner: 128, experts: 3, topK: 2, weights: q})
		}
	}
	return all
}

// expertLayer is a layer on the device and its result in float64.
type expertLayer struct {
	kernels.FusedExperts
	x           []float64
	want, bound []float64
	chosen      []int
	shares      []float64
	before      []byte // X's buffer
}

func newExpertLayer(t testing.TB, d gputest.GPU, c expertCase, dt kernels.DType) *expertLayer {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(c.hidden), uint64(c.inner*100+c.experts)))
	l := &expertLayer{FusedExperts: kernels.FusedExperts{Hidden: c.hidden, Inner: c.inner, TopK: c.topK, DType: dt, Epsilon: 1e-5}}
	hold := func(n, k int, q kernels.WeightFormat) (kernels.Weights, []float64) {
		values, o := drawn(t, d, r, dt, n*k, 0, 1/math.Sqrt(float64(k)))
		p := kernels.Task{Subject: kernels.Linear(dt, n, k), M: 1}
		var w kernels.Weights
		var err error
		if q.Bits > 0 {
			w, values = rounded(t, d, p, q, values)
		} else if w, err = d.Pack(p, o.Buffer); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		return w, values
	}
	var weight, router []float64
	l.x, l.X = drawn(t, d, r, kernels.FP32, c.hidden, c.offset, 3)
	weight, l.Weight = drawn(t, d, r, dt, c.hidden, c.offset, 1)
	l.Router, router = hold(c.experts, c.hidden, kernels.WeightFormat{})
	units, outputs := make([][]float64, c.experts), make([][]float64, c.experts)
	for e := range c.experts {
		var w kernels.Weights
		w, units[e] = hold(2*c.inner, c.hidden, c.weights)
		l.Units = append(l.Units, w)
		w, outputs[e] = hold(c.hidden, c.inner, c.weights)
		l.Outputs = append(l.Outputs, w)
	}
	_, l.Inputs = drawn(t, d, r, dt, c.topK*c.inner, 0, math.NaN())
	l.Choice = kernels.Operand{Buffer: gputest.Buffer(t, d, kernels.ExpertChoiceBytes(c.experts, c.topK))}
	l.before = make([]byte, l.X.Buffer.Bytes())
	if err := l.X.Buffer.Download(0, l.before); err != nil {
		t.Fatal(err)
	}
	l.reference(t, weight, router, units, outputs)
	return l
}

// reference computes the result and its bounds with [fusedReference]. Errors of units spread to all elements of the outputs.
func (l *expertLayer) reference(t testing.TB, weight, router []float64, units, outputs [][]float64) {
	t.Helper()
	squares := 0.0
	for _, v := range l.x {
		squares += v * v
	}
	logits := make([]float64, len(units))
	for e := range logits {
		for i, v := range l.x {
			logits[e] += v / math.Sqrt(squares/float64(l.Hidden)+l.Epsilon) * weight[i] * router[e*l.Hidden+i]
		}
		l.chosen = append(l.chosen, e)
	}
	slices.SortStableFunc(l.chosen, func(a, b int) int {
		if logits[a] > logits[b] {
			return -1
		}
		return 1
	})
	if len(logits) > l.TopK && logits[l.chosen[l.TopK-1]]-logits[l.chosen[l.TopK]] < 1e-4 {
		t.Fatalf("the choice is too close to call: %v", logits)
	}
	l.chosen = l.chosen[:l.TopK]
	all := 0.0
	for _, e := range l.chosen {
		l.shares = append(l.shares, math.Exp(logits[e]-logits[l.chosen[0]]))
		all += l.shares[len(l.shares)-1]
	}
	l.want, l.bound = slices.Clone(l.x), make([]float64, l.Hidden)
	unit, output := expertProducts(l.FusedExperts)
	for i, e := range l.chosen {
		l.shares[i] /= all
		in, off, err := fusedReference(unit, units[e], nil, l.x, weight)
		if err != nil {
			t.Fatal(err)
		}
		zero := make([]float64, l.Hidden)
		out, bound, err := fusedReference(output, outputs[e], in, zero, nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := range out {
			for k, w := range outputs[e][n*l.Inner : (n+1)*l.Inner] {
				bound[n] += math.Abs(w) * off[k]
			}
			l.want[n] += l.shares[i] * out[n]
			l.bound[n] += l.shares[i]*bound[n] + 1e-4*math.Abs(l.shares[i]*out[n])
		}
	}
	for n, w := range l.want {
		l.bound[n] += 0x1p-22 * math.Abs(w)
	}
}

// off returns the largest error after running launches, relative to the bound.
func (l *expertLayer) off(t testing.TB, d gputest.GPU, launches []kernels.Launch) (worst float64) {
	t.Helper()
	if err := l.X.Buffer.Upload(0, l.before); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Execute(context.Background(), launches, len(launches)); err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, len(l.before))
	got := make([]float64, len(raw)/4)
	for _, err := range []error{l.X.Buffer.Download(0, raw), kernels.Decode(kernels.FP32, raw, got)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, w := range l.want {
		off := math.Abs(got[l.X.Offset+i]-w) / l.bound[i]
		if !(off <= worst) {
			worst = off
		}
	}
	return worst
}

// registerRole and ringRole plan plain weights otherwise than the default.
func registerRole(e expertRole, a planning.Arch, p kernels.FusedProduct, f kernels.WeightFormat, at fusedAddresses,
	chosen uint64) (planning.Call, string) {
	return e.call(a, p, at, chosen), "registers"
}

func ringRole(e expertRole, a planning.Arch, p kernels.FusedProduct, f kernels.WeightFormat, at fusedAddresses,
	chosen uint64) (planning.Call, string) {
	if _, ok := ringFor(a, p); !ok {
		return e.plan(a, p, f, at, chosen)
	}
	return e.ringCall(a, p, at, chosen, ring{stages: 2, early: 1000, blocks: 1}), "short ring"
}

// TestFuseExperts compares the experts of one row with float64, with every plan. Under compute-sanitizer, with -test.short,
// it shows out-of-bounds accesses and races.
func TestFuseExperts(t *testing.T) {
	d := gputest.First(t)
	for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
		t.Run(dt.String(), func(t *testing.T) {
			if reason := planning.TypeReason(d.Arch(), dt); reason != "" {
				t.Skip(reason)
			}
			worst := map[string]float64{}
			for _, c := range expertCases(testing.Short(), dt) {
				if c.weights.Bits > 0 && d.Arch().CC != 90 {
					continue
				}
				l := newExpertLayer(t, d, c, dt)
				plans := map[string]expertPlan{"plan": expertRole.plan, "registers": registerRole, "short ring": ringRole}
				if c.weights.Bits > 0 {
					plans = map[string]expertPlan{"integers": expertRole.plan}
				}
				for name, plan := range plans {
					launches, err := Operations{d.Device}.fuseExperts(l.FusedExperts, plan)
					if err != nil {
						t.Fatalf("%v, %s: %v", c, name, err)
					}
					off := l.off(t, d, launches)
					if worst[name] = max(worst[name], off); !(off <= 1) {
						t.Errorf("%v, %s: off by %.2f of the bound", c, name, off)
					}
					l.checkChoice(t, c)
				}
			}
			t.Logf("of the bound used: %v", worst)
		})
	}
}

func (l *expertLayer) checkChoice(t testing.TB, c expertCase) {
	t.Helper()
	raw := make([]byte, l.Choice.Buffer.Bytes())
	if err := l.Choice.Buffer.Download(0, raw); err != nil {
		t.Fatal(err)
	}
	for i, e := range l.chosen {
		at := raw[expertTableBytes*len(l.Units)+chosenBytes*i:]
		share := float64(math.Float32frombits(binary.LittleEndian.Uint32(at[16:])))
		expert := int(binary.LittleEndian.Uint32(at[20:]))
		if expert != e || !(math.Abs(share-l.shares[i]) < 1e-4) || !bytes.Equal(at[:16], raw[16*e:16*e+16]) {
			t.Errorf("%v: choice %d is expert %d with %g, expected %d with %g", c, i, expert, share, e, l.shares[i])
		}
	}
}

// Wrong choices, shares and addresses must exceed the bounds.
func TestExpertBoundsShowFaults(t *testing.T) {
	d := gputest.First(t)
	for _, c := range []expertCase{{hidden: 512, inner: 256, experts: 8, topK: 2},
		{hidden: 512, inner: 256, experts: 8, topK: 2, weights: kernels.IntegerWeights(4, 128, false)}} {
		if c.weights.Bits > 0 && d.Arch().CC != 90 {
			continue
		}
		l := newExpertLayer(t, d, c, kernels.FP16)
		first, second := l.chosen[0], l.chosen[1]
		swapped := func(a, b int) func(*kernels.FusedExperts) {
			return func(o *kernels.FusedExperts) {
				o.Units, o.Outputs = slices.Clone(o.Units), slices.Clone(o.Outputs)
				o.Units[a], o.Units[b] = o.Units[b], o.Units[a]
			}
		}
		other := 0
		for slices.Contains(l.chosen, other) {
			other++
		}
		faults := map[string]func(*kernels.FusedExperts){
			"none":                    func(*kernels.FusedExperts) {},
			"units of another expert": swapped(first, other),
			"units of the two chosen": swapped(first, second),
			"one expert fewer":        func(o *kernels.FusedExperts) { o.TopK = 1 },
			"one expert more":         func(o *kernels.FusedExperts) { o.TopK = 3 },
			"outputs of the next expert": func(o *kernels.FusedExperts) {
				o.Outputs = append(slices.Clone(o.Outputs[1:]), o.Outputs[0])
			},
			"norm with another epsilon":     func(o *kernels.FusedExperts) { o.Epsilon = 1 },
			"normalized with other weights": func(o *kernels.FusedExperts) { o.Weight.Buffer, o.Weight.Offset = o.Inputs.Buffer, 0 },
		}
		for fault, change := range faults {
			o := l.FusedExperts
			o.Inputs = kernels.Operand{Buffer: gputest.Buffer(t, d, int64(2*8*c.inner))}
			o.Choice = kernels.Operand{Buffer: gputest.Buffer(t, d, kernels.ExpertChoiceBytes(8, 8))}
			change(&o)
			launches, err := Operations{d.Device}.FuseExperts(o)
			if err != nil {
				t.Fatal(err)
			}
			if off := l.off(t, d, launches); (off <= 1) != (fault == "none") {
				t.Errorf("%v, %s: off by %.2f of the bound", c, fault, off)
			}
		}
		// Launches that read a choice of other experts than the last one's.
		launches, err := Operations{d.Device}.FuseExperts(l.FusedExperts)
		if err != nil {
			t.Fatal(err)
		}
		l.off(t, d, launches)
		raw := make([]byte, l.Choice.Buffer.Bytes())
		if err := l.Choice.Buffer.Download(0, raw); err != nil {
			t.Fatal(err)
		}
		at := raw[expertTableBytes*c.experts:]
		copy(at[:16], raw[16*other:])
		if err := l.Choice.Buffer.Upload(0, raw); err != nil {
			t.Fatal(err)
		}
		if off := l.off(t, d, launches[1:]); off <= 1 {
			t.Errorf("%v, a stale choice: off by %.2f of the bound", c, off)
		}
	}
}

// NaN among the router's results makes all of X NaN, and does not make the launches read other memory.
func TestExpertChoiceOfNaN(t *testing.T) {
	d := gputest.First(t)
	c := expertCase{hidden: 128, inner: 64, experts: 6, topK: 2}
	l := newExpertLayer(t, d, c, kernels.FP16)
	launches, err := Operations{d.Device}.FuseExperts(l.FusedExperts)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(l.before[4*17:], math.Float32bits(float32(math.NaN())))
	if off := l.off(t, d, launches); off <= 1 {
		t.Errorf("off by %.2f of the bound with a NaN in X", off)
	}
	raw := make([]byte, l.Choice.Buffer.Bytes())
	if err := l.Choice.Buffer.Download(0, raw); err != nil {
		t.Fatal(err)
	}
	for i := range c.topK {
		if e := binary.LittleEndian.Uint32(raw[expertTableBytes*c.experts+chosenBytes*i+20:]); int(e) != i {
			t.Errorf("choice %d is expert %d, expected the first ones", i, e)
		}
	}
}

func TestFuseExpertsRefuses(t *testing.T) {
	d := gputest.First(t)
	l := newExpertLayer(t, d, expertCase{hidden: 64, inner: 32, experts: 3, topK: 2}, kernels.FP16)
	for _, c := range []struct {
		change func(*kernels.FusedExperts)
		want   string
	}{
		{func(o *kernels.FusedExperts) { o.TopK = 4 }, "fuse 3 experts of hidden 64 inner 32 fp16: 4 experts per row of 3"},
		{func(o *kernels.FusedExperts) { o.Units = o.Units[1:] }, "weights of 2 units and 3 outputs"},
		{func(o *kernels.FusedExperts) { o.Router = o.Units[0] }, "router: m1 n3 k64 fp16: "},
		{func(o *kernels.FusedExperts) { o.Units = o.Outputs }, "units of expert 0: "},
		{func(o *kernels.FusedExperts) { o.X.Offset = 1 }, "operand X"},
		{func(o *kernels.FusedExperts) { o.Weight.Buffer = nil }, "operand Weight"},
		{func(o *kernels.FusedExperts) { o.Inputs.Offset = 1 }, "operand Inputs"},
		{func(o *kernels.FusedExperts) { o.Choice.Offset = 8 }, "operand Choice"},
		{func(o *kernels.FusedExperts) { o.Choice.Buffer = nil }, "operand Choice"},
	} {
		o := l.FusedExperts
		c.change(&o)
		ls, err := Operations{d.Device}.FuseExperts(o)
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(c.want)) || ls != nil {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	var unsupported *kernels.Unsupported
	many := l.FusedExperts
	for len(many.Units) < 33 {
		many.Units, many.Outputs = append(many.Units, many.Units[0]), append(many.Outputs, many.Outputs[0])
	}
	unaligned := newExpertLayer(t, d, expertCase{hidden: 64, inner: 32, experts: 3, topK: 2, offset: 1}, kernels.FP16).FusedExperts
	for _, o := range []kernels.FusedExperts{many, unaligned} {
		if _, err := (Operations{d.Device}).FuseExperts(o); !errors.As(err, &unsupported) {
			t.Errorf("%d experts, X at %d: %v", len(o.Units), o.X.Offset, err)
		}
	}
}
