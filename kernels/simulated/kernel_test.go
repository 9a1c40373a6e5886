package simulated

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func TestArithmeticPassesTheGate(t *testing.T) {
	d := New(Config{Gemms: []KernelConfig{
		{Name: "right", Cost: Linear(1e12, 0), Arithmetic: true},
		{Name: "idle", Cost: Linear(1e12, 0)},
	}})
	for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16, kernels.INT8} {
		for _, layout := range []kernels.Layout{kernels.RowMajor, kernels.Transposed} {
			p := kernels.Task{Subject: kernels.Product(dt, 5, 17).In(layout), M: 3, LDA: 19, LDC: 8}
			if err := kernels.CheckGemm(context.Background(), d, d.Kernels(kernels.GEMM)[0], p, 1); err != nil {
				t.Errorf("%s %s: %v", dt, layout, err)
			}
			if err := kernels.CheckGemm(context.Background(), d, d.Kernels(kernels.GEMM)[1], p, 1); err == nil {
				t.Errorf("%s %s: a kernel that computes nothing passed", dt, layout)
			}
			b := p.Batch(3)
			b.StrideA, b.StrideC = 5*19, 4*8
			if _, err := kernels.CheckMargin(context.Background(), d, d.Kernels(kernels.GEMM)[0], b, 1); err != nil {
				t.Errorf("%s %s: %v", dt, layout, err)
			}
			if _, err := kernels.CheckMargin(context.Background(), d, d.Kernels(kernels.GEMM)[1], b, 1); err == nil {
				t.Errorf("%s %s: a kernel that computes nothing of a batch passed", dt, layout)
			}
		}
	}
	if d.Used() != 0 {
		t.Errorf("the gate left %d bytes allocated", d.Used())
	}
}

func TestLargeArithmeticIsRefused(t *testing.T) {
	d := New(Config{Gemms: []KernelConfig{{Name: "exact", Cost: Linear(1e12, 0), Arithmetic: true}, {Name: "idle", Cost: Linear(1e12, 0)}}})
	exact, idle := d.Kernels(kernels.GEMM)[0], d.Kernels(kernels.GEMM)[1]
	small := kernels.Task{Subject: kernels.Product(kernels.FP32, 256, 256), M: 256}
	large := kernels.Task{Subject: kernels.Product(kernels.FP32, 14336, 4096), M: 4096}
	if err := exact.Supports(small); err != nil {
		t.Errorf("a small product: %v", err)
	}
	var unsupported *kernels.Unsupported
	for what, err := range map[string]error{"a large product": exact.Supports(large), "a large batch": exact.Supports(small.Batch(2))} {
		if !errors.As(err, &unsupported) || !strings.Contains(unsupported.Reason, "computes its results for real") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := idle.Supports(large); err != nil {
		t.Errorf("a kernel that computes nothing: %v", err)
	}
}

func bind(t *testing.T, d *Device, m int) kernels.Launch {
	t.Helper()
	p := kernels.Task{Subject: kernels.Product(kernels.FP32, 256, 128), M: m}
	alloc := func(bytes int) kernels.Buffer {
		b, err := d.Alloc(int64(bytes))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	w, err := d.Kernels(kernels.GEMM)[0].Prepare(p, alloc(4*p.N*p.K))
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Kernels(kernels.GEMM)[0].Bind(p, kernels.Operand{Buffer: alloc(4 * m * p.K)}, w,
		kernels.Operand{Buffer: alloc(4 * m * p.N)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTimeIsTheDeclaredCost(t *testing.T) {
	p := func(m int) kernels.Task {
		return kernels.Task{Subject: kernels.Product(kernels.FP32, 256, 128), M: m}
	}
	for _, c := range []struct {
		name string
		cost Cost
		m    int
		want float64
	}{
		{"linear", Linear(1e9, 1e-6), 8, 1e-6 + 2*8*256*128/1e9},
		{"roofline memory", Roofline(1e15, 1e9, 0), 1, 4 * (128 + 256*128 + 256) / 1e9},
		{"waves first", Waves(64, 128, 4, 1e9, 0), 128, 2 * 64 * 128 * 128 / 1e9},
		{"waves second", Waves(64, 128, 4, 1e9, 0), 129, 2 * 2 * 64 * 128 * 128 / 1e9},
		{"slow inside", Slow(Linear(1e9, 0), 8, 9, 1.5), 8, 1.5 * 2 * 8 * 256 * 128 / 1e9},
		{"slow outside", Slow(Linear(1e9, 0), 8, 9, 1.5), 10, 2 * 10 * 256 * 128 / 1e9},
	} {
		d := New(Config{Gemms: []KernelConfig{{Name: "k", Cost: c.cost}}})
		l := bind(t, d, c.m)
		before := d.Now()
		span, err := d.Execute(context.Background(), []kernels.Launch{l}, 3)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.cost(p(c.m)); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: cost %g, expected %g", c.name, got, c.want)
		}
		if math.Abs(span.Seconds-3*c.want) > 1e-12 {
			t.Errorf("%s: three launches took %g s, expected %g", c.name, span.Seconds, 3*c.want)
		}
		if gone := d.Now().Sub(before).Seconds(); math.Abs(gone-span.Seconds) > 2e-9 {
			t.Errorf("%s: the clock advanced %g s in a block of %g", c.name, gone, span.Seconds)
		}
	}
}

func TestNoiseAndDriftAreReproducible(t *testing.T) {
	spans := func(seed uint64, drift float64) []float64 {
		d := New(Config{Seed: seed, Noise: Disturbances{Sigma: 0.02, Stray: 0.02}, Gemms: []KernelConfig{{Name: "k", Cost: Linear(1e9, 0)}},
			Drift: func(s float64) float64 { return 1 + drift*s }})
		l := bind(t, d, 8)
		var out []float64
		for range 2000 {
			s, err := d.Execute(context.Background(), []kernels.Launch{l}, 1)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, s.Seconds)
		}
		return out
	}
	a, b, other := spans(1, 0), spans(1, 0), spans(2, 0)
	var mean, square float64
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("block %d differs between equal devices: %g and %g", i, a[i], b[i])
		}
		mean += math.Log(a[i]) / float64(len(a))
	}
	for _, x := range a {
		square += (math.Log(x) - mean) * (math.Log(x) - mean) / float64(len(a))
	}
	if sd := math.Sqrt(square); sd < 0.019 || sd > 0.06 {
		t.Errorf("relative spread %.4f, expected 0.02 and a tail", sd)
	}
	if a[0] == other[0] {
		t.Error("another seed gave the same noise")
	}
	if drifting := spans(1, 1); drifting[1999] < 1.05*a[1999] {
		t.Errorf("drift: last block %g, without drift %g", drifting[1999], a[1999])
	}
}

func TestFailures(t *testing.T) {
	refused := errors.New("launch error 700")
	d := New(Config{MemoryBytes: 1 << 20, LoseAfter: 2, Gemms: []KernelConfig{{Name: "k", Cost: Linear(1e9, 0),
		ExecuteError: func(p kernels.Task) error {
			if p.M == 13 {
				return refused
			}
			return nil
		}}}})
	if _, err := d.Alloc(1 << 21); err == nil {
		t.Error("more memory than there is was given out")
	}
	good, bad := bind(t, d, 8), bind(t, d, 13)
	ctx := context.Background()
	if _, err := d.Execute(ctx, []kernels.Launch{bad}, 1); !errors.Is(err, refused) {
		t.Errorf("failing case: %v", err)
	}
	for range 2 {
		if _, err := d.Execute(ctx, []kernels.Launch{good}, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Execute(ctx, []kernels.Launch{good}, 1); !errors.Is(err, kernels.ErrDeviceLost) {
		t.Errorf("lost device: %v", err)
	}
	cancelled, cancel := context.WithTimeout(ctx, -time.Second)
	defer cancel()
	if _, err := d.Execute(cancelled, []kernels.Launch{good}, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestStarterKeepsTwoBlocksInFlight(t *testing.T) {
	d := &Starter{Device: New(Config{Gemms: []KernelConfig{{Name: "one", Cost: Linear(1e12, 1e-3)}}}), Starting: 200 * time.Microsecond}
	l := bind(t, d.Device, 8)
	began := d.Now()
	start := func(n int) func() (kernels.Span, error) {
		t.Helper()
		wait, err := d.Start(t.Context(), kernels.Block{Launches: []kernels.Launch{l}, N: n})
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	first, second := start(1), start(2)
	if _, err := d.Start(t.Context(), kernels.Block{Launches: []kernels.Launch{l}, N: 1}); err == nil {
		t.Error("a third block was started")
	}
	if _, err := d.Execute(t.Context(), []kernels.Launch{l}, 1); err == nil {
		t.Error("a block was executed beside others")
	}
	buffer, err := d.Alloc(1024)
	if err != nil {
		t.Fatal(err)
	}
	if buffer.Fill(kernels.Normal, kernels.FP32, 8, 1) == nil {
		t.Error("memory was filled beside a block")
	}
	if _, err := d.Kernels(kernels.GEMM)[0].Prepare(kernels.Task{Subject: kernels.Product(kernels.FP32, 8, 8), M: 1}, buffer); err == nil {
		t.Error("weights were prepared beside a block")
	}
	if _, err := second(); err == nil {
		t.Error("the second block was waited for before the first")
	}
	for i, wait := range []func() (kernels.Span, error){first, second} {
		span, err := wait()
		if want := float64(i+1) * l.(*launch).seconds(); err != nil || math.Abs(span.Seconds-want) > 1e-12 {
			t.Errorf("block %d took %g s, want %g (%v)", i, span.Seconds, want, err)
		}
	}
	if _, err := first(); err == nil {
		t.Error("a block was waited for twice")
	}
	// 0.2 ms to start the first block, then 1 ms and 2 ms without a gap.
	if took := d.Now().Sub(began); math.Abs(took.Seconds()-3.2e-3) > 1e-5 {
		t.Errorf("both were over after %v", took)
	}
	if err := buffer.Fill(kernels.Normal, kernels.FP32, 8, 1); err != nil {
		t.Error(err)
	}
}
