package simulated

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func batchTask(products, m int) kernels.Task {
	t := kernels.Task{Subject: kernels.Product(kernels.BF16, 4096, 4096), M: m}
	t.Products = products
	return t
}

func TestBatches(t *testing.T) {
	const products = 3
	m := newMachine(t, MachineConfig{Seed: 7, Products: products, Depths: []float64{0.2}})
	d := m.Open(Session{Seed: 1})
	alloc := allocator(t, d)
	task := batchTask(products, 800)
	in, out := task.InputElements(task.M)*2, task.OutputElements(task.M)*2
	raw, a, c := alloc(task.Stored(task.M)), alloc(in), alloc(out)
	if task.Stored(task.M) != products*4096*4096*2 || in != products*800*4096*2 {
		t.Fatalf("%d bytes of weights and %d of A: not those of %d products", task.Stored(task.M), in, products)
	}
	for _, name := range []string{Library, Ours} {
		k, err := kernels.Find(d, kernels.GEMM, name)
		if err != nil {
			t.Fatal(err)
		}
		w, err := k.Prepare(task, raw)
		if err != nil {
			t.Fatal(err)
		}
		l, err := k.Bind(task, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
		if err != nil {
			t.Fatal(err)
		}
		takesTheTruth(t, m, d, l, name, task.M)
		if _, err := k.Prepare(task, alloc(task.Stored(task.M)-2)); err == nil || !strings.Contains(err.Error(), "with 100663296 bytes") {
			t.Errorf("%s: weights of less than %d products: %v", name, products, err)
		}
		for operand, short := range map[string][2]kernels.Buffer{"In": {alloc(in - 2), c}, "Out": {a, alloc(out - 2)}} {
			if _, err := k.Bind(task, kernels.Operand{Buffer: short[0]}, w, kernels.Operand{Buffer: short[1]}); err == nil ||
				!strings.Contains(err.Error(), operand+" needs") {
				t.Errorf("%s: %s is one element short: %v", name, operand, err)
			}
		}
		var refused *kernels.Unsupported
		for _, other := range []int{0, 1, products + 1} {
			if err := k.Supports(batchTask(other, 800)); !errors.As(err, &refused) ||
				refused.Reason != "this machine knows only bf16 n4096 k4096 x3" {
				t.Errorf("%s: %d products: %v", name, other, err)
			}
			if _, err := k.Bind(batchTask(other, 1), kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c}); !errors.As(err, &refused) {
				t.Errorf("%s: %d products are bound: %v", name, other, err)
			}
		}
	}
	single, err := kernels.Find(newMachine(t, MachineConfig{}).Open(Session{}), kernels.GEMM, Ours)
	if err != nil {
		t.Fatal(err)
	}
	if err := single.Supports(batchTask(2, 800)); err == nil ||
		!strings.HasSuffix(err.Error(), "this machine knows only bf16 n4096 k4096") {
		t.Errorf("a machine of single products: %v", err)
	}
	if _, err := NewMachine(MachineConfig{N: 1, K: 1, Ms: []int{1}, Products: -1}); err == nil {
		t.Error("a machine of -1 products: no error")
	}
}

// A batch must lie between its products one by one and the limits of arithmetic and memory, and be faster if
// one product leaves units idle.
func TestBatchTimes(t *testing.T) {
	const rough = 0.015 // two rows, six standard deviations
	rapid.Check(t, func(t *rapid.T) {
		cfg := MachineConfig{
			Seed: rapid.Uint64().Draw(t, "seed"), N: rapid.SampledFrom([]int{512, 4096}).Draw(t, "n"), K: 4096, Ms: grid,
			Waves: rapid.Bool().Draw(t, "waves"), Switches: rapid.Bool().Draw(t, "switches"), Families: rapid.Bool().Draw(t, "families"),
		}
		one, err := NewMachine(cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Products = rapid.IntRange(1, 16).Draw(t, "products")
		all, err := NewMachine(cfg)
		if err != nil {
			t.Fatal(err)
		}
		n := float64(cfg.Products)
		at := rapid.SampledFrom(grid).Draw(t, "m")
		shape := kernels.Shape{M: at, N: cfg.N, K: cfg.K}
		for _, kernel := range []string{Library, Ours} {
			single, batch := one.Seconds(kernel, []int{at}, NominalClockMHz).Lo, all.Seconds(kernel, []int{at}, NominalClockMHz).Lo
			if batch > n*single*(1+rough) {
				t.Fatalf("%s m%d: %d products take %g s in a batch, %g s one by one", kernel, at, cfg.Products, batch, n*single)
			}
			least := n * math.Max(shape.FLOPs()/peakFLOPS, shape.Bytes(kernels.BF16)/bandwidth)
			if batch < least*(1-rough) {
				t.Fatalf("%s m%d: %d products take %g s, the device needs %g", kernel, at, cfg.Products, batch, least)
			}
		}
	})
	// One product occupies 2 of 132 units, sixteen occupy 32.
	cfg := MachineConfig{N: 512, K: 4096, Ms: []int{128}, Waves: true}
	one, err := NewMachine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Products = 16
	all, err := NewMachine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	single, batch := one.Seconds(Library, cfg.Ms, NominalClockMHz).Lo, all.Seconds(Library, cfg.Ms, NominalClockMHz).Lo
	if batch > 8*single {
		t.Errorf("16 products take %g s, one %g: idle units take none of them", batch, single)
	}
	r := all.find(Library, 128)
	if want := 32.0 / units; r.tiling.Waves != want {
		t.Errorf("%g waves of sixteen products, want %g", r.tiling.Waves, want)
	}
}

func TestBatchLosses(t *testing.T) {
	losesWhatIsPlanted(t, newMachine(t, MachineConfig{Seed: 5, Products: 8, Depths: []float64{0.1, 0.2}}))
}

func losesWhatIsPlanted(t *testing.T, m *Machine) {
	t.Helper()
	seen := 0
	for _, p := range m.Planted() {
		losses := m.Losses(p.Kernel, NominalClockMHz)
		for at := p.FromM; at <= p.ToM; at++ {
			if i, ok := slices.BinarySearch(grid, at); ok {
				seen++
				if math.Abs(losses[i].Lo-p.Depth) > 1e-9 {
					t.Errorf("%s m%d loses %v, planted %g", p.Kernel, at, losses[i], p.Depth)
				}
			}
		}
	}
	if seen < 4 {
		t.Errorf("%d rows are planted", seen)
	}
}
