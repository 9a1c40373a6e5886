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

// openAMX is a device with the kernel amx, or a skipped test that says why.
func openAMX(t testing.TB, threads int) (*Device, kernels.Gemm) {
	t.Helper()
	d, err := Open(threads)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	g, err := kernels.FindGemm(d, "amx")
	if err != nil {
		t.Skipf("%v; go test -tags amxemu runs this on a model of the tiles", err)
	}
	return d, g
}

// smallBlocks are tunings under which the products of the gate have more than one
// block in every direction.
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
			checks = append(checks, checked(t)(kernels.NewBatchCheck(b, 7)))
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

// needsPairs skips what AMX does with integer weights where its tiles are a model in software on a CPU without AVX-512 BF16: the
// form that weights are stored in there has no pairs of k, which tiles need. No CPU with AMX is without.
func needsPairs(t *testing.T, d *Device) {
	t.Helper()
	if amxEmulated && !d.features.AVX512BF16 {
		t.Skip("weights are stored for AVX2 here, and AMX takes them in the pairs of AVX-512 BF16")
	}
}

// Integer weights, of which the products are turned, with several blocks in every direction.
func TestAMXGateQuantised(t *testing.T) {
	d, g := openAMX(t, 2)
	needsPairs(t, d)
	for i, tuning := range smallBlocks {
		t.Run(fmt.Sprintf("tuning%d", i), func(t *testing.T) {
			defer tuneAMX(tuneAMX(tuning))
			ran := 0
			for j, q := range kernels.QuantisedCheckProblems(kernels.BF16) {
				if j%7 != i {
					continue
				}
				_, err := checked(t)(kernels.NewQuantisedCheck(q, uint64(j))).Margin(t.Context(), d, g)
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

// Products at random, among them those in which threads have no share.
func TestAMXGateRandom(t *testing.T) {
	d, g := openAMX(t, 4)
	rapid.Check(t, func(t *rapid.T) {
		defer tuneAMX(tuneAMX(rapid.SampledFrom(smallBlocks).Draw(t, "tuning")))
		p := kernels.Problem{
			Shape: kernels.Shape{
				M: rapid.IntRange(1, 140).Draw(t, "m"), N: rapid.IntRange(1, 140).Draw(t, "n"), K: rapid.IntRange(1, 300).Draw(t, "k"),
			},
			DType:      rapid.SampledFrom([]kernels.DType{kernels.BF16, kernels.INT8}).Draw(t, "dtype"),
			Threads:    rapid.IntRange(1, 4).Draw(t, "threads"),
			PackInside: rapid.Bool().Draw(t, "inside"),
		}
		p.LDA = p.K + rapid.IntRange(0, 3).Draw(t, "lda")
		p.LDC = p.N + rapid.IntRange(0, 3).Draw(t, "ldc")
		if err := kernels.CheckGemm(context.Background(), d, g, p, 3); err != nil {
			t.Error(err)
		}
	})
}

// A K so long that all of A can't be packed at once: of few rows, of one strip, and
// of many strips with several blocks of columns.
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
		p := kernels.Problem{Shape: tc.shape, DType: kernels.BF16, Threads: tc.threads}
		if err := kernels.CheckGemm(context.Background(), d, g, p, 5); err != nil {
			t.Error(err)
		}
		tuneAMX(before)
	}
}

// The result must not depend on how the work is divided.
func TestAMXSameOnAnyThreads(t *testing.T) {
	d, g := openAMX(t, 4)
	defer tuneAMX(tuneAMX(smallBlocks[1]))
	shape := kernels.Shape{M: 150, N: 210, K: 500}
	run := func(threads int) string {
		p := kernels.Problem{Shape: shape, DType: kernels.BF16, Threads: threads}
		return string(product(t, d, g, p))
	}
	want := run(1)
	for threads := 2; threads <= 4; threads++ {
		if run(threads) != want {
			t.Errorf("%d threads give other bits than one", threads)
		}
	}
}

// product computes one product of normal operands and returns C's bytes.
func product(t testing.TB, d *Device, g kernels.Gemm, p kernels.Problem) []byte {
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
	w, err := g.PrepareWeights(p, raw)
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

// C has the same bits whether it is written past the caches or not: with rows that begin
// with a cache line, edges on both sides, and nothing beyond C touched.
func TestAMXWritesPastCaches(t *testing.T) {
	d, g := openAMX(t, 2)
	through := smallBlocks[1]
	past := through
	past.kept = 0
	for _, dt := range []kernels.DType{kernels.BF16, kernels.INT8} {
		for _, n := range []int{32, 160, 192} {
			p := kernels.Problem{Shape: kernels.Shape{M: 77, N: n, K: 300}, DType: dt, Threads: 2}
			before := tuneAMX(through)
			want := string(product(t, d, g, p))
			tuneAMX(past)
			got := string(product(t, d, g, p))
			tuneAMX(before)
			if got != want {
				t.Errorf("%v %s: past the caches C has other bits", p.Shape, dt)
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
		p := kernels.Problem{Shape: kernels.Shape{M: 1, N: 1, K: 1}, DType: dt}
		var u *kernels.Unsupported
		if err := g.Supports(p); !errors.As(err, &u) || u.Kernel != "amx" || u.Reason == "" {
			t.Errorf("%s: %v, want an Unsupported with a reason", dt, err)
		}
		if _, err := g.PrepareWeights(p, nil); err == nil {
			t.Errorf("%s: weights were prepared", dt)
		}
	}
}

// Without tiles the kernel is listed with the reason.
func TestAMXMissing(t *testing.T) {
	t.Setenv("GEMMAUDIT_ISA", "avx2")
	d, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, err = kernels.FindGemm(d, "amx")
	if err == nil || !strings.Contains(err.Error(), "AMX") {
		t.Errorf("amx under GEMMAUDIT_ISA=avx2: %v, want a reason that names AMX", err)
	}
}
