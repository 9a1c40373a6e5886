package cuda

import (
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

var (
	h200Arch = arch{cc: 90, sms: 132, sharedMax: 227 << 10, l2: 60 << 20, clockMHz: 1980, bandwidth: 4800e9}
	t4Arch   = arch{cc: 75, sms: 40, sharedMax: 64 << 10, l2: 4 << 20, clockMHz: 1590, bandwidth: 320e9}
)

func normalized(t *testing.T, m, n, k int, d kernels.DType) kernels.Problem {
	t.Helper()
	p, err := kernels.Problem{Shape: kernels.Shape{M: m, N: n, K: k}, DType: d}.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWaveSeconds(t *testing.T) {
	a := arch{sms: 10, clockMHz: 1} // a cycle is a microsecond
	for _, c := range []struct {
		tiles int
		want  float64 // in cycles
	}{
		{1, 60},     // one block alone
		{10, 60},    // one on each multiprocessor
		{11, 100},   // two on some: the multipliers are shared
		{20, 100},   // a full wave
		{21, 160},   // and a block alone
		{2000, 1e4}, // a hundred waves
	} {
		if got := waveSeconds(a, c.tiles, 2, 60, 100) * 1e6; math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%d tiles: %g cycles, want %g", c.tiles, got, c.want)
		}
	}
}

// TestCoreKernelsRefuse: each type is refused where the architecture, or the kernel,
// lacks it, with a reason; and so is what can't be indexed.
func TestCoreKernelsRefuse(t *testing.T) {
	for _, f := range []gemmFamily{naive{}, tiled{}} {
		for _, c := range []struct {
			a    arch
			d    kernels.DType
			want string
		}{
			{t4Arch, kernels.FP32, ""}, {t4Arch, kernels.FP16, ""}, {t4Arch, kernels.INT8, ""},
			{t4Arch, kernels.BF16, "bf16 needs compute capability 8.0, this GPU has 7.5"},
			{testArchs[2], kernels.FP8, "fp8 needs compute capability 8.9, this GPU has 8.6"},
			{h200Arch, kernels.FP8, ""}, {h200Arch, kernels.BF16, ""},
			{h200Arch, kernels.TF32, "tf32 is a format of tensor cores, which " + f.Name() + " does not use"},
		} {
			if got := f.Supports(c.a, gemmProblem{Problem: normalized(t, 5, 7, 9, c.d)}); got != c.want {
				t.Errorf("%s, %s on %d: %q, want %q", f.Name(), c.d, c.a.cc, got, c.want)
			}
		}
		if got := f.Supports(h200Arch, gemmProblem{Problem: normalized(t, 1, 1, math.MaxInt32, kernels.INT8)}); !strings.Contains(got, "beyond") {
			t.Errorf("%s: K of 2^31-1: %q", f.Name(), got)
		}
		if got := f.Supports(h200Arch, gemmProblem{Problem: normalized(t, 1<<30, 1<<30, 1, kernels.INT8)}); !strings.Contains(got, "tiles") {
			t.Errorf("%s: 2^60 outputs: %q", f.Name(), got)
		}
	}
}

// TestTiledChoosesTiles: large tiles once they fill the GPU, small ones before.
func TestTiledChoosesTiles(t *testing.T) {
	for _, c := range []struct {
		a       arch
		m, n, k int
		want    string
	}{
		{h200Arch, 8192, 8192, 8192, "128x128"},
		{h200Arch, 1, 4096, 4096, "16x64"},
		{h200Arch, 16, 14336, 4096, "16x64"},
		{h200Arch, 256, 4096, 4096, "64x64"},
		{t4Arch, 4, 4096, 4096, "16x64"},
	} {
		if got := (tiled{}).Plan(c.a, gemmProblem{normalized(t, c.m, c.n, c.k, kernels.FP32), alignment{16, 16}}).label; got != c.want {
			t.Errorf("m%d n%d k%d on %d: %s, want %s", c.m, c.n, c.k, c.a.cc, got, c.want)
		}
	}
}

// TestCoreModels: the model knows what no kernel can beat: a tiled product is slower
// than the multipliers and than memory, and naive is slower than tiled.
func TestCoreModels(t *testing.T) {
	for _, a := range testArchs {
		for _, d := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.INT8} {
			for _, m := range []int{1, 16, 200, 1000, 8192} {
				p := normalized(t, m, 4096, 4096, d)
				tiledSeconds := tiled{}.Plan(a, gemmProblem{p, alignment{16, 16}}).seconds
				floor := p.Shape.FLOPs() / 2 / (coreRate(a, d) * float64(a.sms) * a.clockMHz * 1e6)
				if memory := p.Shape.Bytes(d) / a.bandwidth; tiledSeconds < max(floor, memory) {
					t.Errorf("%d, %s, m%d: tiled in %g s, the least is %g and %g", a.cc, d, m, tiledSeconds, floor, memory)
				}
				if naiveSeconds := (naive{}).Plan(a, gemmProblem{p, alignment{16, 16}}).seconds; m >= 200 && naiveSeconds < 2*tiledSeconds {
					t.Errorf("%d, %s, m%d: naive in %g s, tiled in %g", a.cc, d, m, naiveSeconds, tiledSeconds)
				}
			}
		}
	}
}

// TestTiledAlignment: operands that lack a chunk's alignment take the path that loads
// element by element.
func TestTiledAlignment(t *testing.T) {
	for _, c := range []struct {
		d     kernels.DType
		align int
		want  byte
	}{
		{kernels.FP32, 16, 1}, {kernels.FP32, 8, 0}, {kernels.FP16, 8, 1}, {kernels.FP16, 4, 0},
		{kernels.INT8, 16, 1}, {kernels.INT8, 8, 0}, {kernels.FP8, 4, 1}, {kernels.FP8, 2, 0},
	} {
		p := normalized(t, 64, 64, 64, c.d)
		args := (tiled{}).Plan(h200Arch, gemmProblem{p, alignment{c.align, 16}}).bind(addresses{ldb: 64})[0].args.bytes
		if got := args[48+6*4]; got != c.want {
			t.Errorf("%s aligned to %d: %d, want %d", c.d, c.align, got, c.want)
		}
	}
}
