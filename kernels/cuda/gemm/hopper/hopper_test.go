package hopper

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
)

var hopperTypes = []kernels.DType{kernels.BF16, kernels.FP16, kernels.TF32, kernels.FP8, kernels.INT8}

func TestHopperSupports(t *testing.T) {
	ada, blackwell := planning.Arch{CC: 89, SMs: 128}, planning.Arch{CC: 100, SMs: 148}
	for _, c := range []struct {
		a      planning.Arch
		d      kernels.DType
		reason string
	}{
		{cudatest.H200, kernels.FP32, "tf32"},
		{ada, kernels.FP16, "this GPU has 8.9"},
		{blackwell, kernels.FP16, "this GPU has 10.0"},
		{cudatest.H200, kernels.TF32, ""},
		{cudatest.H200, kernels.FP8, ""},
		{cudatest.H200, kernels.INT8, ""},
	} {
		got := Family{}.Supports(c.a, gemm.Problem{Task: cudatest.Normalized(t, 16, 16, 16, c.d)})
		if (got == "") != (c.reason == "") || !strings.Contains(got, c.reason) {
			t.Errorf("%s on %d: %q, expected %q in it", c.d, c.a.CC, got, c.reason)
		}
	}
	p := cudatest.Normalized(t, 1<<30, 1<<30, 16, kernels.FP16)
	if got := (Family{}).Supports(cudatest.H200, gemm.Problem{Task: p}); !strings.Contains(got, "tiles") {
		t.Errorf("2^60 outputs: %q", got)
	}
}

// The ring fills shared memory, exceeds the consumers' distance, and aligns stages to the swizzle pattern.
func TestHopperRing(t *testing.T) {
	for _, d := range hopperTypes {
		for _, tile := range hopperTiles(d) {
			if tile.stages() <= hopperLead || tile.shared() > cudatest.H200.SharedMax {
				t.Errorf("%s: %d stages, %d bytes", tile.kernel(d), tile.stages(), tile.shared())
			}
			if (tile.rows+tile.cols)*hopperStepBytes%1024 != 0 {
				t.Errorf("%s: stages are not aligned to 1024 bytes", tile.kernel(d))
			}
		}
	}
	for _, c := range []struct {
		rows, cols, stages int
		direct             bool
	}{
		{128, 256, 4, false}, {128, 128, 6, false}, {128, 176, 5, false}, {192, 192, 4, false}, {256, 120, 4, false}, {128, 192, 4, false},
		{384, 128, 3, false},
		{128, 256, 4, true}, {128, 192, 5, true}, {128, 160, 6, true},
	} {
		if stages := (hopperTile{rows: c.rows, cols: c.cols, direct: c.direct}).stages(); stages != c.stages {
			t.Errorf("%dx%d, direct %t: %d stages, expected %d", c.rows, c.cols, c.direct, stages, c.stages)
		}
	}
}

func TestHopperBuilt(t *testing.T) {
	for _, d := range hopperTypes {
		for _, tile := range hopperTiles(d) {
			k, err := artefacts.Find(tile.kernel(d), 90)
			if err != nil {
				t.Fatal(err)
			}
			if k.Stack > 0 || k.SpillStores > 0 {
				t.Errorf("%s spills", k.Symbol)
			}
		}
	}
}

// Tiles fill the rounds of all multiprocessors; the rest is split along K only if that pays.
func TestHopperChoices(t *testing.T) {
	for _, c := range []struct {
		d       kernels.DType
		m, n, k int
		label   string // its beginning
		split   bool
	}{
		// 128 tiles on 132 multiprocessors.
		{kernels.BF16, 1024, 4096, 4096, "", false},
		// 670 is 4 × 168, less two: no other height has a smaller remainder.
		{kernels.BF16, 670, 4096, 4096, "168x128t", false},
		{kernels.FP16, 586, 4096, 14336, "152x128t", false},
		// Slightly more than one round for any tile; K is long, so splits cost little.
		{kernels.BF16, 256, 2304, 65536, "", true},
		// Integers are not stored transposed.
		{kernels.INT8, 1024, 14336, 4096, "128x176 turns", false},
		// Over many rounds the ends of tiles matter: consumers take turns.
		{kernels.INT8, 2048, 14336, 4096, "128x176 turns", false},
		{kernels.FP8, 16384, 14336, 4096, "192x128t turns", false},
		{kernels.BF16, 16384, 14336, 4096, "192x128t turns", false},
	} {
		choice, seconds := Family{}.choose(cudatest.H200, cudatest.Normalized(t, c.m, c.n, c.k, c.d))
		if !strings.HasPrefix(choice.label(), c.label) || (choice.split > 0) != c.split || seconds <= 0 {
			t.Errorf("%s m%d n%d k%d: %q, %g s", c.d, c.m, c.n, c.k, choice.label(), seconds)
		}
		if choice.transposed && c.d == kernels.INT8 {
			t.Errorf("int8: %q", choice.label())
		}
	}
}

// TestHopperSeconds compares expected times with an H200, which ran the smaller products at a higher clock.
func TestHopperSeconds(t *testing.T) {
	for _, c := range []struct {
		m, n, k int
		us      float64
	}{
		{16384, 4096, 4096, 805}, {4096, 14336, 4096, 712}, {16384, 14336, 4096, 2776},
		{512, 4096, 4096, 26.7}, {1145, 4096, 4096, 57.8}, {4380, 4096, 4096, 225.6}, {16754, 4096, 4096, 864.9},
		{876, 14336, 4096, 160.7}, {9797, 14336, 4096, 1766}, {584, 4096, 14336, 105.9}, {14651, 4096, 14336, 2567},
		{131, 14336, 4096, 35.5}, {302, 6144, 4096, 29.7}, {407, 4096, 4096, 22.5}, {164, 14336, 4096, 38.9},
	} {
		a := alone
		if c.m >= 512 {
			a.LoadMHz = 1333 // under the power limit
		}
		_, seconds := Family{}.choose(a, cudatest.Normalized(t, c.m, c.n, c.k, kernels.BF16))
		if ratio := seconds * 1e6 / c.us; ratio < 0.85 || ratio > 1.15 {
			t.Errorf("m%d n%d k%d: expected %.1f us, measured %.1f", c.m, c.n, c.k, seconds*1e6, c.us)
		}
	}
}

// hopperWalk returns the pieces of one cluster as in hopper.cu's Work: tile, first step, end.
func hopperWalk(c hopperChoice, cluster int) (pieces [][3]int) {
	bound := func(cluster int) int { return cluster * c.split * c.steps / c.clusters }
	low, high := bound(cluster), bound(cluster+1)
	for high > low {
		tile := (high - 1) / c.steps
		begin := max(low-tile*c.steps, 0)
		pieces = append(pieces, [3]int{tile, begin, high - tile*c.steps})
		high = tile*c.steps + begin
	}
	for tile := c.split + cluster; tile < c.rowTiles*c.colTiles; tile += c.clusters {
		pieces = append(pieces, [3]int{tile, 0, c.steps})
	}
	return pieces
}

// One cluster runs each step of each tile. Only a cluster's first piece hands over sums, which prevents
// deadlock. The cluster with the end of the tile takes each sum once.
func TestHopperCoverage(t *testing.T) {
	cut := 0
	for _, d := range []kernels.DType{kernels.FP16, kernels.INT8} {
		for _, s := range [][3]int{
			{1, 1, 1}, {600, 1040, 2000}, {1152, 4096, 4096}, {2000, 3001, 3000}, {3000, 4096, 1024}, {256, 2304, 65536}, {130, 14337, 511},
		} {
			p := cudatest.Normalized(t, s[0], s[1], s[2], d)
			for _, tile := range hopperTiles(d)[:4] {
				for _, pair := range []hopperPair{single, stacked, sideBySide} {
					c := hopperChoice{hopperTile: tile, pair: pair, steps: planning.DivideUp(p.K*d.Size(), hopperStepBytes)}
					rows, cols := tile.extent(p)
					c.rowTiles, c.colTiles = planning.DivideUp(rows, tile.rows), planning.DivideUp(cols, tile.cols)
					splits, n := c.splits(cudatest.H200)
					for _, c.split = range splits[:n] {
						c.clusters = cudatest.H200.SMs / c.size()
						if c.split == 0 {
							c.clusters = min(c.clusters, c.rowTiles*c.colTiles)
						} else {
							cut++
						}
						checkHopperWalk(t, c)
					}
				}
			}
		}
	}
	if cut == 0 {
		t.Error("no schedule cuts tiles")
	}
}

func checkHopperWalk(t *testing.T, c hopperChoice) {
	t.Helper()
	done := make([]int, c.rowTiles*c.colTiles*c.steps)
	kept, taken := map[int]int{}, map[int]int{}
	for cluster := range c.clusters {
		for i, piece := range hopperWalk(c, cluster) {
			tile, begin, end := piece[0], piece[1], piece[2]
			for step := begin; step < end; step++ {
				done[tile*c.steps+step]++
			}
			switch {
			case end < c.steps:
				if i > 0 {
					t.Fatalf("%+v: cluster %d hands over its piece %d", c, cluster, i)
				}
				kept[cluster] = tile
			case begin > 0:
				for other := cluster - 1; ; other-- {
					if _, twice := taken[other]; twice {
						t.Fatalf("%+v: sums of cluster %d are taken twice", c, other)
					}
					taken[other] = tile
					if other*c.split*c.steps/c.clusters <= tile*c.steps {
						break
					}
				}
			}
		}
	}
	for i, n := range done {
		if n != 1 {
			t.Fatalf("%+v: step %d of tile %d is done %d times", c, i%c.steps, i/c.steps, n)
		}
	}
	if len(kept) != len(taken) {
		t.Fatalf("%+v: %d sums are handed over, %d taken", c, len(kept), len(taken))
	}
	for cluster, tile := range kept {
		if taken[cluster] != tile {
			t.Fatalf("%+v: cluster %d's sums of tile %d go to tile %d", c, cluster, tile, taken[cluster])
		}
	}
}

func TestHopperArgs(t *testing.T) {
	p := cudatest.Normalized(t, 1000, 4096, 520, kernels.FP16)
	p.LDA, p.LDC = 528, 4100
	at := gemm.Addresses{A: 0x1000, B: 0x2000, C: 0x3000, LDB: 520, Scratch: 0x4000, Flags: 0x5000}
	c := hopperChoice{
		hopperTile: hopperTile{rows: 128, cols: 192, transposed: true}, pair: stacked, rowTiles: 16, colTiles: 6, steps: 9, clusters: 66,
		split: 30,
	}
	k := c.call(p, at, 528, true)
	if k.Kernel != "ga_hopper_fp16_128x192t" || k.Grid.X != 132 || k.Cluster.X != 2 || k.Block.X != 384 || !k.Overlap {
		t.Errorf("%+v", k)
	}
	if len(k.Args.Bytes) != 576 || len(k.Args.Maps) != 3 {
		t.Fatalf("%d bytes, %d maps", len(k.Args.Bytes), len(k.Args.Maps))
	}
	for i, want := range []planning.TensorMap{
		{DType: kernels.FP16, Address: 0x2000, Rows: 4096, Cols: 520, LD: 520, BoxRows: 128, BoxCols: 64, Swizzle: 128},
		{DType: kernels.FP16, Address: 0x1000, Rows: 1000, Cols: 520, LD: 528, BoxRows: 96, BoxCols: 64, Swizzle: 128},
		{DType: kernels.FP16, Address: 0x3000, Rows: 1000, Cols: 4096, LD: 4100, BoxRows: 16, BoxCols: 64, Swizzle: 128},
	} {
		if got := k.Args.Maps[i]; got.Map != want || got.At != i*planning.TensorMapBytes {
			t.Errorf("map %d: %+v, expected %+v", i, got, want)
		}
	}
	for i, want := range []uint64{0x3000, 4100, 0x4000, 0x5000} {
		if got := binary.LittleEndian.Uint64(k.Args.Bytes[384+8*i:]); got != want {
			t.Errorf("word at %d: %#x, expected %#x", 384+8*i, got, want)
		}
	}
	for i, want := range []uint32{4096, 1000, 9, 16, 6, hopperGroup, 30, 4, 6, 1, hopperLead, 1} {
		if got := binary.LittleEndian.Uint32(k.Args.Bytes[416+4*i:]); got != want {
			t.Errorf("integer at %d: %d, expected %d", 416+4*i, got, want)
		}
	}
	for i, want := range []uint32{math.MaxInt32, math.MaxInt32} {
		if got := binary.LittleEndian.Uint32(k.Args.Bytes[512+4*i:]); got != want {
			t.Errorf("integer at %d: %d, expected %d", 512+4*i, got, want)
		}
	}

	c.pair, c.split, c.clusters = sideBySide, 0, 66
	k = c.call(p, at, 528, false)
	if k.Args.Maps[0].Map.BoxRows != 64 || k.Args.Maps[1].Map.BoxRows != 192 || len(k.Args.Maps) != 2 {
		t.Errorf("maps of a pair side by side, without TMA for C: %+v", k.Args.Maps)
	}
	if got := binary.LittleEndian.Uint32(k.Args.Bytes[416+4*11:]); got != 0 {
		t.Errorf("C counts as aligned: %d", got)
	}
}

func TestHopperStores(t *testing.T) {
	for _, c := range []struct {
		n, ldc, align int
		tma           bool
	}{{4096, 4096, 16, true}, {4096, 4100, 8, false}, {4096, 4096, 8, false}, {4001, 4008, 16, false}, {4000, 4008, 16, true}} {
		p := cudatest.Normalized(t, 2000, c.n, 512, kernels.BF16)
		p.LDC = c.ldc
		calls := Family{}.Plan(cudatest.H200, gemm.NewProblem(p, 16, c.align)).Bind(gemm.Addresses{LDB: 512})
		if got := len(calls[0].Args.Maps) == 3; got != c.tma {
			t.Errorf("N %d, ldc %d, aligned to %d: stored by TMA %v", c.n, c.ldc, c.align, got)
		}
	}
}

// An A that TMA can't read is copied first; the sums of split tiles follow the copy in scratch.
func TestHopperRealign(t *testing.T) {
	p := cudatest.Normalized(t, 2000, 3000, 3001, kernels.BF16)
	aligned, copied := Family{}.Plan(cudatest.H200, gemm.NewProblem(p, 16, 16)), Family{}.Plan(cudatest.H200, gemm.NewProblem(p, 2, 16))
	at := gemm.Addresses{A: 0x1002, B: 0x2000, C: 0x3000, LDB: 3008, Scratch: 0x100000, Flags: 0x5000}
	if calls := aligned.Bind(at); len(calls) != 1 {
		t.Errorf("%d calls for an aligned A", len(calls))
	}
	calls := copied.Bind(at)
	if len(calls) != 2 || calls[0].Kernel != "ga_realign" {
		t.Fatalf("%d calls for an A at an odd address", len(calls))
	}
	rows := int64(2000 * 3008 * 2)
	if got := copied.Scratch - aligned.Scratch; got < rows || got > rows+256 {
		t.Errorf("%d more bytes of scratch for %d of rows", got, rows)
	}
	if copied.Seconds <= aligned.Seconds {
		t.Error("copying A is free")
	}
	for _, m := range calls[1].Args.Maps {
		if m.Map.Rows == 2000 && m.Map.Cols == 3001 && m.Map.Address != 0x100000 {
			t.Errorf("A is read at %#x", m.Map.Address)
		}
	}
	if copied.Flags > 0 {
		partial := binary.LittleEndian.Uint64(calls[1].Args.Bytes[400:])
		if partial < 0x100000+uint64(rows) {
			t.Errorf("sums lie over the copy of A, at %#x", partial)
		}
	}
}
