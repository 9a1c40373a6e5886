package kernels

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// roundingGemm rounds activations to some levels on either side of zero, by groups of K.
type roundingGemm struct {
	hostQuantized
	levels float64
	group  int
	denies bool
	drops  bool // leaves out the last term
}

func (g *roundingGemm) RoundsActivations(Task) bool { return !g.denies }

func (g *roundingGemm) Bind(q Task, a Operand, w Weights, c Operand, _ ...Operand) (Launch, error) {
	q, err := q.Normalized()
	if err != nil {
		return nil, err
	}
	b := w.(hostWeights).Operand
	return hostLaunch(func() error {
		row := make([]float64, q.K)
		for i := range q.M {
			for k := range row {
				row[k] = a.get(q.DType, i*q.LDA+k)
			}
			g.round(row)
			for j := range q.N {
				sum := 0.
				for k, x := range row {
					sum += x * b.get(FP32, j*q.K+k)
				}
				c.put(q.DType.Output(), i*q.LDC+j, sum)
			}
		}
		return nil
	}), nil
}

func (g *roundingGemm) round(row []float64) {
	for from := 0; from < len(row); from += g.group {
		part := row[from:min(from+g.group, len(row))]
		most := 0.0
		for _, x := range part {
			most = max(most, math.Abs(x))
		}
		for k, x := range part {
			if most > 0 {
				part[k] = math.RoundToEven(x/most*g.levels) * most / g.levels
			}
		}
	}
	if g.drops {
		row[len(row)-1] = 0
	}
}

// The gate accepts 8 bits for 32 activations of a kernel that says so, and nothing coarser.
func TestGateRoundedActivations(t *testing.T) {
	q := Task{Subject: Linear(FP16, 64, 512), M: 3}.WithWeights(IntegerWeights(4, 64, true).with(FP16, 512))
	own, lost := hostQuantized{inFP32: true, scales: true}, hostQuantized{inFP32: true, scales: true, noZeros: true}
	tests := map[string]struct {
		kernel *roundingGemm
		passes bool
	}{
		"8 bits":           {&roundingGemm{hostQuantized: own, levels: 127, group: RoundedGroup}, true},
		"not declared":     {&roundingGemm{hostQuantized: own, levels: 127, group: RoundedGroup, denies: true}, false},
		"6 bits":           {&roundingGemm{hostQuantized: own, levels: 31, group: RoundedGroup}, false},
		"a term left out":  {&roundingGemm{hostQuantized: own, levels: 127, group: RoundedGroup, drops: true}, false},
		"zero points lost": {&roundingGemm{hostQuantized: lost, levels: 127, group: RoundedGroup}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			check, err := NewGemmCheck(q, 1)
			if err != nil {
				t.Fatal(err)
			}
			found, err := check.Run(t.Context(), &hostDevice{}, test.kernel)
			var wrong WrongResult
			switch {
			case test.passes && (err != nil || !found.Rounded):
				t.Errorf("got %+v, %v, expected to pass with rounded activations", found, err)
			case !test.passes && !errors.As(err, &wrong):
				t.Errorf("got %v, expected a wrong result", err)
			}
		})
	}
}

// Up to 12 terms, six standard deviations are more than the largest possible error. Operands are values of fp32: squares of smaller
// ones underflow.
func TestRoundedBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "k")
		draw := func(name string, most float32) []float64 {
			values := make([]float64, n)
			for i, v := range rapid.SliceOfN(rapid.Float32Range(-most, most), n, n).Draw(t, name) {
				values[i] = float64(v)
			}
			return values
		}
		a, w := draw("a", 8), draw("w", 1)
		steps := RoundingSteps(a)
		rounded := append([]float64{}, a...)
		(&roundingGemm{levels: 127, group: RoundedGroup}).round(rounded)
		var sum float64
		for k := range a {
			if e := math.Abs(rounded[k] - a[k]); e > steps[k]/2*(1+1e-9) {
				t.Fatalf("element %d was rounded by %g, more than half of %g", k, e, steps[k])
			}
			sum += (rounded[k] - a[k]) * w[k]
		}
		if bound := RoundedBound(steps, w); math.Abs(sum) > bound*(1+1e-9) {
			t.Fatalf("error %g, bound %g", sum, bound)
		}
	})
}
