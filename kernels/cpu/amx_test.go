package cpu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"pgregory.net/rapid"
)

func openAMX(t testing.TB, threads int) (*Device, kernels.Kernel) {
	t.Helper()
	d, err := Open(threads)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	g, err := kernels.Find(d, kernels.GEMM, "amx")
	if err != nil {
		t.Skipf("%v; go test -tags amxemu runs this on a model of the tiles", err)
	}
	return d, g
}

// smallBlocks are tunings that give the gate's products several blocks in each dimension.
var smallBlocks = []amxTuning{
	{rows: 32, cols: 32, steps: 1, panels: 1},
	{rows: 64, cols: 96, steps: 2, stream_a: 1, kept: 1 << 20, prefetch_stride: 128, panels: 2, ahead: 512},
	{rows: 96, cols: 64, steps: 3, fetch_sums: 1, prefetch_stride: 64, panels: 3, ahead: 4096},
}

func TestAMXGate(t *testing.T) {
	d, g := openAMX(t, 3)
	standing := tuneAMX(amxTuning{})
	tuneAMX(standing)
	var checks []*kernels.GemmCheck
	for _, dt := range []kernels.DType{kernels.BF16, kernels.INT8} {
		for _, p := range kernels.CheckProblems(dt) {
			checks = append(checks, checked(t)(kernels.NewGemmCheck(p, 7)))
		}
		for _, b := range kernels.GateBatches(dt) {
			checks = append(checks, checked(t)(kernels.NewGemmCheck(b, 7)))
		}
	}
	for _, p := range kernels.SpecialProblems(kernels.BF16) {
		checks = append(checks, checked(t)(kernels.NewGemmCheck(p, 7)).Special())
	}
	for _, p := range kernels.SpecialProblems(kernels.INT8) {
		checks = append(checks, checked(t)(kernels.NewGemmCheck(p, 7)))
	}
	for i, tuning := range append([]amxTuning{standing}, smallBlocks...) {
		t.Run(fmt.Sprintf("tuning%d", i), func(t *testing.T) {
			defer tuneAMX(tuneAMX(tuning))
			for _, check := range checks {
				found, err := check.Run(t.Context(), d, g)
				if err != nil {
					t.Error(err)
				}
				if found.Subnormals != "" && found.Subnormals != kernels.SubnormalsZero {
					t.Errorf("subnormal operands: %s", found.Subnormals)
				}
			}
		})
	}
}

// needsPairs skips integer weights for emulated tiles on a CPU without AVX-512 BF16. The packed weights lack
// the pairs of k there that tiles need. All CPUs with AMX have AVX-512 BF16.
func needsPairs(t *testing.T, d *Device) {
	t.Helper()
	if amxEmulated && !d.features.AVX512BF16 {
		t.Skip("weights are stored for AVX2 here, and AMX takes them in the pairs of AVX-512 BF16")
	}
}

func TestAMXGateQuantized(t *testing.T) {
	d, g := openAMX(t, 2)
	needsPairs(t, d)
	for i, tuning := range smallBlocks {
		t.Run(fmt.Sprintf("tuning%d", i), func(t *testing.T) {
			defer tuneAMX(tuneAMX(tuning))
			ran := 0
			for j, q := range kernels.QuantizedCheckProblems(kernels.BF16) {
				if j%7 != i {
					continue
				}
				_, err := checked(t)(kernels.NewGemmCheck(q, uint64(j))).Margin(t.Context(), d, g)
				var unsupported *kernels.Unsupported
				if errors.As(err, &unsupported) {
					continue
				}
				if err != nil {
					t.Error(err)
				}
				ran++
			}
			if ran == 0 {
				t.Error("nothing ran")
			}
		})
	}
}

// In some of the random products, threads have no share.
func TestAMXGateRandom(t *testing.T) {
	d, g := openAMX(t, 4)
	rapid.Check(t, func(t *rapid.T) {
		defer tuneAMX(tuneAMX(rapid.SampledFrom(smallBlocks).Draw(t, "tuning")))
		p := kernels.Task{Subject: kernels.Product(rapid.SampledFrom([]kernels.DType{kernels.BF16, kernels.INT8}).Draw(t, "dtype"),
			rapid.IntRange(1, 140).Draw(t, "n"), rapid.IntRange(1, 300).Draw(t, "k")), M: rapid.IntRange(1, 140).Draw(t, "m"),
			Threads: rapid.IntRange(1, 4).Draw(t, "threads"), PackInside: rapid.Bool().Draw(t, "inside")}
		p.LDA = p.K + rapid.IntRange(0, 3).Draw(t, "lda")
		p.LDC = p.N + rapid.IntRange(0, 3).Draw(t, "ldc")
		if err := kernels.CheckGemm(context.Background(), d, g, p, 3); err != nil {
			t.Error(err)
		}
	})
}

// K is too long to pack all of A at once.
func TestAMXGateLongK(t *testing.T) {
	d, g := openAMX(t, 2)
	for _, tc := range []struct {
		shape   kernels.Shape
		threads int
		tuning  amxTuning
	}{
		{kernels.Shape{M: 2, N: 3, K: 261921}, 2, smallBlocks[1]},
		{kernels.Shape{M: 17, N: 2, K: 130977}, 2, smallBlocks[2]},
		{kernels.Shape{M: 130, N: 33, K: 38001}, 1, amxTuning{rows: 512, cols: 32, steps: 100, panels: 1, prefetch_stride: 64}},
	} {
		before := tuneAMX(tc.tuning)
		p := kernels.Task{Subject: kernels.Product(kernels.BF16, tc.shape.N, tc.shape.K), M: tc.shape.M, Threads: tc.threads}
		if err := kernels.CheckGemm(context.Background(), d, g, p, 5); err != nil {
			t.Error(err)
		}
		tuneAMX(before)
	}
}

func TestAMXSameOnAnyThreads(t *testing.T) {
	d, g := openAMX(t, 4)
	defer tuneAMX(tuneAMX(smallBlocks[1]))
	shape := kernels.Shape{M: 150, N: 210, K: 500}
	run := func(threads int) string {
		p := kernels.Task{Subject: kernels.Product(kernels.BF16, shape.N, shape.K), M: shape.M, Threads: threads}
		return string(product(t, d, g, p))
	}
	want := run(1)
	for threads := 2; threads <= 4; threads++ {
		if run(threads) != want {
			t.Errorf("%d threads give other bits than one", threads)
		}
	}
}

func product(t testing.TB, d *Device, g kernels.Kernel, p kernels.Task) []byte {
	t.Helper()
	p, err := p.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	alloc := func(n int, dt kernels.DType) kernels.Buffer {
		b, err := d.Alloc(int64(n * dt.Size()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		if err := b.Fill(kernels.Normal, dt, int64(n), uint64(n)); err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, raw := alloc(p.M*p.K, p.DType), alloc(p.K*p.N, p.DType)
	c, err := d.Alloc(int64(p.M * p.N * p.DType.Output().Size()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	w, err := g.Prepare(p, raw)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l, err := g.Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Execute(context.Background(), []kernels.Launch{l}, 1); err != nil {
		t.Fatal(err)
	}
	out := make([]byte, p.M*p.N*p.DType.Output().Size())
	if err := c.Download(0, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Non-temporal stores must give the same bits in C and not write beyond C.
func TestAMXWritesPastCaches(t *testing.T) {
	d, g := openAMX(t, 2)
	through := smallBlocks[1]
	past := through
	past.kept = 0
	for _, dt := range []kernels.DType{kernels.BF16, kernels.INT8} {
		for _, n := range []int{32, 160, 192} {
			p := kernels.Task{Subject: kernels.Product(dt, n, 300), M: 77, Threads: 2}
			before := tuneAMX(through)
			want := string(product(t, d, g, p))
			tuneAMX(past)
			got := string(product(t, d, g, p))
			tuneAMX(before)
			if got != want {
				t.Errorf("%v %s: past the caches C has other bits", p.Shape(), dt)
			}
			if err := func() error {
				defer tuneAMX(tuneAMX(past))
				p.LDC = n + 32
				return kernels.CheckGemm(t.Context(), d, g, p, 9)
			}(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAMXUnsupported(t *testing.T) {
	_, g := openAMX(t, 1)
	for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.FP8} {
		p := kernels.Task{Subject: kernels.Product(dt, 1, 1), M: 1}
		var u *kernels.Unsupported
		if err := g.Supports(p); !errors.As(err, &u) || u.Kernel != "amx" || u.Reason == "" {
			t.Errorf("%s: %v, want an Unsupported with a reason", dt, err)
		}
		if _, err := g.Prepare(p, nil); err == nil {
			t.Errorf("%s: weights were prepared", dt)
		}
	}
}

func TestAMXMissing(t *testing.T) {
	t.Setenv("GEMMAUDIT_ISA", "avx2")
	d, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, err = kernels.Find(d, kernels.GEMM, "amx")
	if err == nil || !strings.Contains(err.Error(), "AMX") {
		t.Errorf("amx under GEMMAUDIT_ISA=avx2: %v, want a reason that names AMX", err)
	}
}
