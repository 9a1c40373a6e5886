package mma

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/artefacts"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

var (
	mmaH200 = planning.Arch{CC: 90, SMs: 132, SharedMax: 227 << 10, L2: 60 << 20, ClockMHz: 1980, Bandwidth: 4800e9}
	mma4090 = planning.Arch{CC: 89, SMs: 128, SharedMax: 99 << 10, L2: 72 << 20, ClockMHz: 2520, Bandwidth: 1008e9}
	mmaT4   = planning.Arch{CC: 75, SMs: 40, SharedMax: 64 << 10, L2: 4 << 20, ClockMHz: 1590, Bandwidth: 320e9}
	mmaA100 = planning.Arch{CC: 80, SMs: 108, SharedMax: 163 << 10, L2: 40 << 20, ClockMHz: 1410, Bandwidth: 1555e9}
)

func TestMMASupports(t *testing.T) {
	ampere := planning.Arch{CC: 86, SMs: 84, SharedMax: 99 << 10}
	for _, c := range []struct {
		a      planning.Arch
		d      kernels.DType
		k      int
		reason string
	}{
		{mmaH200, kernels.FP32, 64, "tf32"},
		{mmaT4, kernels.FP16, 64, ""},
		{mmaT4, kernels.INT8, 64, ""},
		{mmaT4, kernels.BF16, 64, "compute capability 8.0"},
		{mmaT4, kernels.TF32, 64, "compute capability 8.0"},
		{ampere, kernels.FP8, 64, "compute capability 8.9"},
		{ampere, kernels.INT8, 64, ""},
		{mma4090, kernels.FP8, 64, ""},
		{mmaH200, kernels.TF32, 1 << 30, "bytes"},
	} {
		got := Family{}.Supports(c.a, gemm.Problem{Task: cudatest.Normalized(t, 16, 16, c.k, c.d)})
		if (got == "") != (c.reason == "") || !strings.Contains(got, c.reason) {
			t.Errorf("%s on %d, K %d: %q, expected %q in it", c.d, c.a.CC, c.k, got, c.reason)
		}
	}
}

// The modeled number of blocks fits on an SM by registers and by shared memory, where each takes an extra 1
// KB from 8.0 on.
func TestMMATilesFit(t *testing.T) {
	for _, a := range cudatest.Archs {
		reserved := 1024
		if a.CC < 80 {
			reserved = 0
		}
		for _, tile := range mmaTiles(a) {
			if held := tile.perSM * (tile.shared() + reserved); held > a.SharedMax+reserved {
				t.Errorf("%d: %+v: the blocks take %d bytes of an SM", a.CC, tile, held)
			}
			for _, d := range []kernels.DType{kernels.FP16, kernels.TF32, kernels.INT8} {
				if planning.TypeReason(a, d) != "" {
					continue
				}
				k, err := artefacts.Find(tile.symbol(kernels.Task{Subject: kernels.Product(d, 1, 1)}), a.CC)
				if err != nil {
					t.Fatal(err)
				}
				if k.Stack > 0 || k.SpillStores > 0 {
					t.Errorf("%d: %s spills", a.CC, k.Symbol)
				}
				if held := tile.perSM * tile.threads() * k.Registers; held > 64<<10 {
					t.Errorf("%d: %s: the blocks take %d registers of an SM", a.CC, k.Symbol, held)
				}
			}
		}
	}
}

func TestMMAChoices(t *testing.T) {
	for _, c := range []struct {
		a       planning.Arch
		m, n, k int
		tile    string // "128x256", the beginning of the label
		split   bool
	}{
		{mmaH200, 1, 14336, 4096, "16x128", false},
		{mmaH200, 16, 14336, 4096, "16x128", false},
		{mmaH200, 16, 4096, 4096, "16x128", true}, // 32 tiles
		{mmaH200, 32, 14336, 4096, "32x128", false},
		{mmaH200, 64, 14336, 4096, "64x128", false},
		{mmaH200, 128, 14336, 4096, "128x128", false},
		{mmaH200, 64, 4096, 4096, "64x64", true},
		{mmaH200, 4096, 14336, 4096, "128x256", false},
		{mmaH200, 128, 128, 14336, "", true},
		{mmaA100, 4096, 14336, 4096, "128x256", false},
		{mmaA100, 16, 14336, 4096, "16x128", false},
		{mma4090, 4096, 14336, 4096, "128x256", false},
		{mma4090, 16, 4096, 14336, "16x128", false}, // 32 SMs saturate its memory bandwidth
		{mmaT4, 4096, 14336, 4096, "128x", false},
	} {
		plan := Family{}.Plan(c.a, gemm.NewProblem(cudatest.Normalized(t, c.m, c.n, c.k, kernels.FP16), 16, 16))
		if !strings.HasPrefix(plan.Label, c.tile) || strings.Contains(plan.Label, "splits") != c.split {
			t.Errorf("%d: m%d n%d k%d: %q, expected %q, splits %v", c.a.CC, c.m, c.n, c.k, plan.Label, c.tile, c.split)
		}
		if (plan.Flags > 0) != c.split || (plan.Scratch > 0) != c.split {
			t.Errorf("%q: scratch %d, flags %d", plan.Label, plan.Scratch, plan.Flags)
		}
	}
}

func TestMMACoverage(t *testing.T) {
	for _, d := range []kernels.DType{kernels.FP16, kernels.INT8, kernels.TF32} {
		for _, m := range []int{1, 17, 64, 100, 1000, 32768} {
			for _, n := range []int{1, 8, 129, 4096} {
				for _, k := range []int{1, 64, 100, 4096, 28672} {
					for _, a := range []planning.Arch{mmaH200, mmaA100, mma4090, mmaT4} {
						c, _ := Family{}.choose(a, cudatest.Normalized(t, m, n, k, d))
						all := planning.DivideUp(k*d.Size(), c.row)
						if c.steps*c.splits < all || c.steps*(c.splits-1) >= all || c.steps < 1 {
							t.Fatalf("%s k%d: %d ranges of %d steps for %d", d, k, c.splits, c.steps, all)
						}
						if c.tilesM*c.m < m || c.tilesN*c.n < n || c.group(a) < 1 || c.group(a) > c.tilesM {
							t.Fatalf("m%d n%d: %+v, group %d", m, n, c, c.group(a))
						}
					}
				}
			}
		}
	}
}

// TestMMAModel compares the model with an H200's microseconds, with weights from memory.
func TestMMAModel(t *testing.T) {
	for _, c := range []struct {
		d       kernels.DType
		m, n, k int
		us      float64
	}{
		{kernels.BF16, 1, 14336, 4096, 29.3}, {kernels.BF16, 16, 14336, 4096, 29.8}, {kernels.BF16, 32, 14336, 4096, 30.5},
		{kernels.BF16, 64, 14336, 4096, 32.0}, {kernels.BF16, 128, 14336, 4096, 44.8}, {kernels.BF16, 256, 14336, 4096, 81.0},
		{kernels.BF16, 512, 14336, 4096, 158.4}, {kernels.BF16, 1024, 14336, 4096, 281}, {kernels.BF16, 4096, 14336, 4096, 1160},
		{kernels.BF16, 16384, 14336, 4096, 4491}, {kernels.BF16, 1, 4096, 4096, 11.5}, {kernels.BF16, 16, 4096, 4096, 11.7},
		{kernels.BF16, 64, 4096, 4096, 12.7}, {kernels.BF16, 128, 4096, 4096, 18.5}, {kernels.BF16, 256, 4096, 4096, 27.5},
		{kernels.BF16, 1024, 4096, 4096, 76.8}, {kernels.BF16, 16, 4096, 14336, 30.9}, {kernels.BF16, 64, 4096, 14336, 34.8},
		{kernels.BF16, 256, 4096, 14336, 82.6}, {kernels.BF16, 2048, 4096, 14336, 574}, {kernels.BF16, 16, 6144, 4096, 15.9},
		{kernels.BF16, 64, 6144, 4096, 17.9}, {kernels.BF16, 256, 6144, 4096, 41.9}, {kernels.BF16, 2048, 6144, 4096, 243},
		{kernels.INT8, 16, 14336, 4096, 16.5}, {kernels.INT8, 256, 14336, 4096, 40.4}, {kernels.INT8, 4096, 14336, 4096, 538},
		{kernels.FP8, 16, 14336, 4096, 16.8}, {kernels.FP8, 32, 14336, 4096, 18.4}, {kernels.FP8, 4096, 14336, 4096, 1164},
		{kernels.TF32, 16, 14336, 4096, 55.7}, {kernels.TF32, 256, 14336, 4096, 146.3}, {kernels.TF32, 4096, 14336, 4096, 2165},
	} {
		alone := mmaH200 // mma.sync draws less power than wgmma
		alone.LoadMHz = 1693
		plan := Family{}.Plan(alone, gemm.NewProblem(cudatest.Normalized(t, c.m, c.n, c.k, c.d), 16, 16))
		ratio := plan.Seconds * 1e6 / c.us
		if math.Abs(math.Log(ratio)) > math.Log(1.15) {
			t.Errorf("%s m%d n%d k%d: %s: %.1f us, measured %.1f", c.d, c.m, c.n, c.k, plan.Label, plan.Seconds*1e6, c.us)
		}
	}
}

func TestMMARealigns(t *testing.T) {
	p := cudatest.Normalized(t, 10, 64, 100, kernels.FP16)
	for _, c := range []struct {
		k, lda, align int
		copied        bool
	}{{104, 104, 16, false}, {104, 128, 16, false}, {104, 104, 8, true}, {100, 104, 16, true}, {100, 100, 8, true}} {
		p.K, p.LDA = c.k, c.lda
		plan := Family{}.Plan(mmaH200, gemm.NewProblem(p, c.align, 16))
		calls := plan.Bind(gemm.Addresses{A: 1 << 20, B: 1 << 21, C: 1 << 22, LDB: support.PackedLDB(p.DType, p.K), Scratch: 1 << 23,
			Flags: 1 << 24})
		if (len(calls) == 2) != c.copied || (plan.Scratch > 0) != c.copied {
			t.Fatalf("%+v: %d calls, %d bytes of scratch", c, len(calls), plan.Scratch)
		}
		last := calls[len(calls)-1].Args.Bytes
		wantA, wantLDA := uint64(1<<20), uint64(c.lda*2)
		if c.copied {
			wantA, wantLDA = 1<<23, 208
		}
		if a := binary.LittleEndian.Uint64(last); a != wantA {
			t.Errorf("%+v: A at %#x, expected %#x", c, a, wantA)
		}
		if lda := binary.LittleEndian.Uint64(last[40:]); lda != wantLDA {
			t.Errorf("%+v: rows %d bytes apart, expected %d", c, lda, wantLDA)
		}
	}
}

func TestMMAArguments(t *testing.T) {
	p := cudatest.Normalized(t, 3, 300, 4096, kernels.INT8)
	p.LDC = 304
	plan := Family{}.Plan(mmaA100, gemm.NewProblem(p, 16, 8))
	c, _ := Family{}.choose(mmaA100, p)
	k := plan.Bind(gemm.Addresses{A: 1, B: 2, C: 3, LDB: 4096, Scratch: 4, Flags: 5})[0]
	b := k.Args.Bytes
	for i, want := range []uint64{1, 2, 3, 4, 5, 4096, 4096, 304} {
		if got := binary.LittleEndian.Uint64(b[8*i:]); got != want {
			t.Errorf("word %d is %d, expected %d", i, got, want)
		}
	}
	for i, want := range []int{3, 300, 4096, c.tilesM, c.tilesN, c.group(mmaA100), c.splits, c.steps, 0} {
		if got := int(binary.LittleEndian.Uint32(b[64+4*i:])); got != want {
			t.Errorf("field %d is %d, expected %d", i, got, want)
		}
	}
	if k.Grid.X != c.tilesM*c.tilesN*c.splits || c.splits < 2 {
		t.Errorf("grid %v for %+v", k.Grid, c)
	}
	if plan.Flags != int64(c.tilesM*c.tilesN*4) || plan.Scratch != int64(c.blocks()*c.m*c.n*4) {
		t.Errorf("scratch %d, flags %d", plan.Scratch, plan.Flags)
	}
}
