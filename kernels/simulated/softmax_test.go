package simulated

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func newSoftmax(t testing.TB, columns int, depths ...float64) *Machine {
	t.Helper()
	m, err := NewMachine(MachineConfig{Seed: 3, Columns: columns, DType: kernels.FP16, Ms: grid, Depths: depths})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSoftmax(t *testing.T) {
	const columns, rows = 1000, 800
	m := newSoftmax(t, columns, 0.2)
	d := m.Open(Session{Seed: 1})
	alloc := allocator(t, d)
	task := kernels.Task{Subject: m.Config().Subject(), M: rows}
	bytes := task.InputElements(rows) * 2
	if bytes != rows*columns*2 || task.Stored(rows) != 0 || len(d.Kernels(kernels.GEMM)) != 0 {
		t.Fatalf("%d bytes of input, %d stored, %d products", bytes, task.Stored(rows), len(d.Kernels(kernels.GEMM)))
	}
	in, out, short := alloc(bytes), alloc(bytes), alloc(bytes-2)
	for _, name := range []string{Library, Ours} {
		k, err := kernels.Find(d, kernels.Softmax, name)
		if err != nil {
			t.Fatal(err)
		}
		w, err := k.Prepare(task, nil)
		if err != nil {
			t.Fatal(err)
		}
		l, err := k.Bind(task, kernels.Operand{Buffer: in}, w, kernels.Operand{Buffer: out})
		if err != nil {
			t.Fatal(err)
		}
		takesTheTruth(t, m, d, l, name, rows)
		for operand, pair := range map[string][2]kernels.Operand{
			"In":  {{Buffer: short}, {Buffer: out}},
			"Out": {{Buffer: in}, {Buffer: out, Offset: 1}},
		} {
			if _, err := k.Bind(task, pair[0], w, pair[1]); err == nil || !strings.Contains(err.Error(), operand+" needs") {
				t.Errorf("%s: %s is one element short: %v", name, operand, err)
			}
		}
		var refused *kernels.Unsupported
		for _, change := range []func(*kernels.Task){
			func(t *kernels.Task) { t.Columns++ },
			func(t *kernels.Task) { t.DType = kernels.BF16 },
			func(t *kernels.Task) { t.Queries = 4 },
			func(t *kernels.Task) { t.Operation = kernels.LogSoftmax },
		} {
			other := task
			change(&other)
			if err := k.Supports(other); !errors.As(err, &refused) || refused.Reason != "this machine knows only softmax fp16 c1000" {
				t.Errorf("%s: %v: %v", name, other, err)
			}
			if _, err := k.Bind(other, kernels.Operand{Buffer: in}, w, kernels.Operand{Buffer: out}); !errors.As(err, &refused) {
				t.Errorf("%s: %v is bound: %v", name, other, err)
			}
		}
	}
	if n := len(newMachine(t, MachineConfig{}).Open(Session{}).Kernels(kernels.Softmax)); n != 0 {
		t.Errorf("a machine of products has %d kernels of softmax", n)
	}
	for name, cfg := range map[string]MachineConfig{
		"a product too": {Columns: 8, N: 8, K: 8, Ms: []int{1}},
		"waves":         {Columns: 8, Waves: true, Ms: []int{1}},
		"families":      {Columns: 8, Families: true, Ms: []int{1}},
		"negative":      {Columns: -1, Ms: []int{1}},
		"no grid":       {Columns: 8},
	} {
		if _, err := NewMachine(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// No softmax may be faster than memory; long rows must reach most of the bandwidth.
func TestSoftmaxTimes(t *testing.T) {
	const rough = 0.015
	rapid.Check(t, func(t *rapid.T) {
		m, err := NewMachine(MachineConfig{Seed: rapid.Uint64().Draw(t, "seed"), Columns: rapid.IntRange(1, 65536).Draw(t, "columns"),
			Ms: grid})
		if err != nil {
			t.Fatal(err)
		}
		at := rapid.SampledFrom(grid).Draw(t, "m")
		least := m.Config().Subject().Bytes(at) / bandwidth
		for _, kernel := range []string{Library, Ours} {
			took := m.Seconds(kernel, []int{at}, NominalClockMHz).Lo
			if took < least*(1-rough) || took > (least/0.8+4e-6)*(1+rough) {
				t.Fatalf("%s m%d: %g s, memory needs %g", kernel, at, took, least)
			}
			if beta := m.Elasticity(kernel, at); beta > 0.25 {
				t.Fatalf("%s m%d: β is %g where memory binds", kernel, at, beta)
			}
		}
	})
	losesWhatIsPlanted(t, newSoftmax(t, 4096, 0.1, 0.2))
}
