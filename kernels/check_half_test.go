package kernels

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// splitGemm rounds the partial sums of a split K to the type of its output.
type splitGemm struct {
	hostGemm
	parts   int
	running bool // also rounds the sum of the parts after each of them
	fault   string
	denies  bool
}

func (g *splitGemm) HalfSums(Task) bool { return !g.denies }

func (g *splitGemm) Bind(t Task, a Operand, w Weights, c Operand, _ ...Operand) (Launch, error) {
	t, err := t.Normalized()
	if err != nil {
		return nil, err
	}
	b := w.(hostWeights).Operand
	return hostLaunch(func() error {
		for i := range t.M {
			for j := range t.N {
				terms := make([]float64, t.K)
				for k := range terms {
					at := k*t.LDB + j
					if t.Layout == Transposed {
						at = j*t.LDB + k
					}
					terms[k] = a.get(t.DType, i*t.LDA+k) * b.get(t.DType, at)
				}
				c.put(t.DType.Output(), i*t.LDC+j, g.sum(t.DType.Output(), terms))
			}
		}
		return nil
	}), nil
}

func (g *splitGemm) sum(out DType, terms []float64) float64 {
	parts := max(1, min(g.parts, len(terms)/16))
	switch g.fault {
	case "a tile":
		terms = terms[:max(1, len(terms)-16)]
	case "a term":
		terms = terms[:max(1, len(terms)-1)]
	}
	var all float64
	for s := range parts {
		var part float64
		for _, v := range terms[len(terms)*s/parts : len(terms)*(s+1)/parts] {
			part = float64(float32(part + v))
		}
		if g.fault == "a part" && s == parts/2 && parts > 1 {
			part = 0
		}
		if part = roundTo(out, part); parts == 1 {
			part = roundTo(FP32, part)
		}
		if all += part; g.running {
			all = roundTo(out, all)
		}
	}
	return all
}

func TestHalfSumBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.IntRange(2, 32).Draw(t, "parts")
		k := rapid.IntRange(16*parts, 4096).Draw(t, "k")
		dt := rapid.SampledFrom([]DType{FP16, BF16, FP8}).Draw(t, "type")
		check := rapid.SampledFrom([]CheckStep{CheckAccuracy, CheckIntegers}).Draw(t, "operands")
		g := splitGemm{parts: parts, running: rapid.Bool().Draw(t, "running")}
		p := Task{Subject: Linear(dt, 16, k), M: 8}
		o := newCheckOperands(p, check, false, rapid.Uint64().Draw(t, "seed"))
		want, magnitude := o.product(p.Shape(), true)
		for i := range p.M {
			for j := range p.N {
				terms := make([]float64, k)
				for l := range terms {
					terms[l] = o.a[i*k+l] * o.b[l*p.N+j]
				}
				at := i*p.N + j
				got := roundTo(dt.Output(), g.sum(dt.Output(), terms))
				bound := ErrorBound(p, want[at], magnitude[at]) + HalfSumBound(p, want[at], magnitude[at])
				if diff := math.Abs(got - want[at]); diff > bound {
					t.Fatalf("%s, %d parts of k %d: off by %g, the bound is %g", dt, parts, k, diff, bound)
				}
			}
		}
	})
}

func TestHalfSumBoundByTerms(t *testing.T) {
	for _, c := range []struct {
		dt                   DType
		k                    int
		ref, magnitude, want float64
	}{
		{BF16, 64, 0, 0, 32 * 0x1p-133}, {BF16, 64, -2, 0, 2 * 0x1p-8}, {BF16, 64, 0, 3, 3 * 0x1p-8},
		{FP16, 2304, 0, 2, 0x1p-11 + 32*0x1p-24}, {FP8, 576, 0, 1, 0x1p-8}, {FP32, 64, 1, 1, 0}, {INT8, 64, 1, 1, 0},
	} {
		got := HalfSumBound(Task{Subject: Product(c.dt, 1, c.k), M: 1}, c.ref, c.magnitude)
		if math.Abs(got-c.want) > 1e-12*c.want {
			t.Errorf("%s k %d of %g and %g: %g, expected %g", c.dt, c.k, c.ref, c.magnitude, got, c.want)
		}
	}
}

func TestGateAllowsHalfSums(t *testing.T) {
	check := func(k Kernel, dt DType) (CheckResult, error) {
		var all CheckResult
		for _, c := range smallChecks(t, dt) {
			if c.p.M*c.p.N*c.p.K > 50_000 {
				continue
			}
			found, err := c.Run(t.Context(), &hostDevice{}, k)
			if err != nil {
				return all, err
			}
			all.HalfSums, all.Margin = found.HalfSums, max(all.Margin, found.Margin)
		}
		return all, nil
	}
	for _, dt := range []DType{FP16, BF16} {
		for _, running := range []bool{false, true} {
			found, err := check(&splitGemm{parts: 32, running: running}, dt)
			if err != nil || found.HalfSums != dt || found.Margin > 1 {
				t.Errorf("%s, running %v: %+v, %v", dt, running, found, err)
			}
		}
		var e *CheckError
		if _, err := check(&splitGemm{parts: 32, denies: true}, dt); !errors.As(err, &e) {
			t.Errorf("%s: a kernel that denies it: %v", dt, err)
		}
		for _, fault := range []string{"a tile", "a term", "a part"} {
			if _, err := check(&splitGemm{parts: 8, fault: fault}, dt); !errors.As(err, &e) {
				t.Errorf("%s without %s: %v", dt, fault, err)
			}
		}
		for _, f := range []faults{{dropTile: true}, {dropTail: true}, {swapColumns: true}, {dropLastRow: true}, {pastEnd: true},
			{dropNaN: true}, {nextRow: true}, {saturateOut: true}} {
			if _, err := check(&halfGemm{hostGemm{faults: f}}, dt); !errors.As(err, &e) {
				t.Errorf("%s, %+v: %v", dt, f, err)
			}
		}
	}
	if found, err := check(&halfGemm{}, INT8); found.HalfSums != "" || err != nil {
		t.Errorf("int8: %+v, %v", found, err)
	}
}

// halfGemm may round partial sums, and makes a kernel's mistakes.
type halfGemm struct{ hostGemm }

func (*halfGemm) HalfSums(Task) bool { return true }
