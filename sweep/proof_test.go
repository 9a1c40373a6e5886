package sweep

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// lying is a device with a kernel of a process, which may be wrong.
func lying(process string, sum func(kernels.Task, float64) float64) *simulated.Device {
	return simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{
		{Name: "mine", Process: process, Cost: simulated.Linear(1e10, 5e-6), Arithmetic: true, Sum: sum},
	}})
}

// A kernel that is wrong at one M has no samples there; those of this process are left to the correctness check.
func TestProof(t *testing.T) {
	const wrong = 13
	for _, c := range []struct {
		name, process string
		sum           func(float64) float64
		want          string
	}{
		{"right", "python", func(sum float64) float64 { return sum }, ""},
		{"off", "python", func(sum float64) float64 { return 1.01 * sum }, "wrong result: element (0,0) is "},
		{"not a number", "python", func(float64) float64 { return math.NaN() }, "wrong result: element (0,0) is NaN, expected "},
		{"in this process", "", func(sum float64) float64 { return 1.01 * sum }, ""},
	} {
		d := lying(c.process, func(p kernels.Task, sum float64) float64 {
			if p.M == wrong {
				return c.sum(sum)
			}
			return sum
		})
		p := planned(t, d, "11:15", func(o *Options) { o.Kernels = []string{"mine"} })
		run := newRun(t, p)
		sum, err := startOn(d, p, run, time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		failures, err := run.Failures()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.want == "" && (len(failures) > 0 || sum.Samples != 5*3):
			t.Errorf("%s: %d samples, failures %v", c.name, sum.Samples, failures)
		case c.want != "" && (len(failures) != 1 || !strings.HasPrefix(failures[0].Reason, c.want) || sum.Samples != 4*3 ||
			!strings.HasSuffix(failures[0].Reason, " of 96 compared elements)")):
			t.Errorf("%s: %d samples, failures %v", c.name, sum.Samples, failures)
		}
	}
}

// firstPacked keeps the weights that it prepared first.
type firstPacked struct {
	kernels.Kernel
	first kernels.Weights
}

func (firstPacked) Process() string { return "python" }

func (k *firstPacked) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if k.first == nil {
		w, err := k.Kernel.Prepare(t, raw)
		if err != nil {
			return nil, err
		}
		k.first = w
	}
	return k.first, nil
}

func TestProofOfAnotherCopy(t *testing.T) {
	for _, regime := range []results.Regime{results.Engine, results.Cold} {
		d := lying("python", nil)
		b, err := newRig(d, kernels.Normal, 1, 5*time.Millisecond, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		c := numericCase("mine", kernels.Transposed, 24)
		c.Regime = regime
		if _, err := b.load(t.Context(), demands([]results.Case{c}, 1<<30)); err != nil {
			t.Fatal(err)
		}
		if err := b.reserve(t.Context(), []results.Case{c}); err != nil {
			t.Fatal(err)
		}
		right := &station{c: c}
		if err := b.prove(t.Context(), right); err != nil || !right.proven {
			t.Errorf("%v: %v", regime, err)
		}
		g, err := b.kernel(c)
		if err != nil {
			t.Fatal(err)
		}
		set := b.sets[matrixOf(c)]
		set.forms = map[formKey]*weightForm{}
		b.kernels[kernelKey{c.Operation, c.Kernel}] = &firstPacked{Kernel: g}
		var wrong kernels.WrongResult
		err = b.prove(t.Context(), &station{c: c})
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), "weights of another launch") {
			t.Errorf("%v, %d copies: %v", regime, len(set.raw), err)
		}
	}
}
