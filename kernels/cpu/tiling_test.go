package cpu

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Our kernels report register tiles and splits of K; auto reports its choice's. Libraries report neither.
func TestTilings(t *testing.T) { onEachISA(t, tilings) }

func tilings(t *testing.T, _ string) {
	dev := open(t, 2)
	for _, g := range dev.Kernels(kernels.GEMM) {
		for _, d := range []kernels.DType{kernels.FP32, kernels.BF16, kernels.INT8} {
			for _, s := range []kernels.Shape{{M: 1, N: 48, K: 8192}, {M: 5, N: 4096, K: 64}, {M: 17, N: 64, K: 64},
				{M: 100, N: 64, K: 64}} {
				p := kernels.Task{Subject: kernels.Product(d, s.N, s.K), M: s.M}
				if g.Supports(p) != nil {
					continue
				}
				got := kernels.TilingOf(boundOn(t, dev, g, p))
				rows := int(dev.path(d).rows)
				even := divideUp(s.M, divideUp(s.M, rows))
				want := kernels.Tiling{}
				switch kernel := g.Name(); kernel {
				case "naive":
					want = kernels.Tiling{Tile: [3]int{1, 1, 1}, Split: 1}
				case "auto":
					picked := g.(*auto).pick(p)
					want = kernels.TilingOf(boundOn(t, dev, dev.gemm(picked.kernel), p))
					if want.Tile[0] != picked.rows || want.Tile[1] != picked.columns {
						t.Errorf("%s %v: auto says %s, and %s tells %+v", d, s, picked.label(), picked.kernel, want)
					}
				case "tiled", "gemv":
					want = kernels.Tiling{Tile: [3]int{even, 32, int(dev.path(d).group)}, Split: 1}
				case "amx":
					want = kernels.Tiling{Tile: [3]int{16, 32, 64 / d.Size()}, Split: 1}
					if s.M > 16 {
						want.Tile[0] = 32
					}
				}
				if got != want {
					t.Errorf("%s %s %v tells %+v, want %+v", g.Name(), d, s, got, want)
				}
			}
		}
	}
	// Two threads split K of the only panel.
	p := kernels.Task{Subject: kernels.Product(kernels.FP32, 32, 8192), M: 1}
	for threads, want := range map[int]int{1: 1, 2: 2} {
		p.Threads = threads
		if got := kernels.TilingOf(boundOn(t, dev, dev.gemm("gemv"), p)).Split; got != want {
			t.Errorf("gemv on %d threads cuts one panel along K into %d parts, want %d", threads, got, want)
		}
	}
}

func boundOn(t *testing.T, dev *Device, g kernels.Kernel, p kernels.Task) kernels.Launch {
	t.Helper()
	raw := fill(t, dev, p.DType, p.N*p.K, 7)
	w, err := g.Prepare(p, raw)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	l, err := g.Bind(p, kernels.Operand{Buffer: fill(t, dev, p.DType, p.M*p.K, 8)}, w,
		kernels.Operand{Buffer: fill(t, dev, kernels.FP32, p.M*p.N, 9)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
