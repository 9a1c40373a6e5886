package cuda

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

var hopperH200 = arch{cc: 90, sms: 132, sharedMax: 227 << 10, l2: 60 << 20, clockMHz: 1980, bandwidth: 4800e9}

func hopperProblem(t *testing.T, d kernels.DType, m, n, k int) kernels.Problem {
	t.Helper()
	p, err := kernels.Problem{Shape: kernels.Shape{M: m, N: n, K: k}, DType: d}.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var hopperTypes = []kernels.DType{kernels.BF16, kernels.FP16, kernels.TF32, kernels.FP8, kernels.INT8}

func TestHopperSupports(t *testing.T) {
	ada, blackwell := arch{cc: 89, sms: 128}, arch{cc: 100, sms: 148}
	for _, c := range []struct {
		a      arch
		d      kernels.DType
		reason string
	}{
		{hopperH200, kernels.FP32, "tf32"},
		{ada, kernels.FP16, "this GPU has 8.9"},
		{blackwell, kernels.FP16, "this GPU has 10.0"},
		{hopperH200, kernels.TF32, ""},
		{hopperH200, kernels.FP8, ""},
		{hopperH200, kernels.INT8, ""},
	} {
		got := hopper{}.Supports(c.a, gemmProblem{Problem: hopperProblem(t, c.d, 16, 16, 16)})
		if (got == "") != (c.reason == "") || !strings.Contains(got, c.reason) {
			t.Errorf("%s on %d: %q, expected %q in it", c.d, c.a.cc, got, c.reason)
		}
	}
	p := hopperProblem(t, kernels.FP16, 1<<30, 1<<30, 16)
	if got := (hopper{}).Supports(hopperH200, gemmProblem{Problem: p}); !strings.Contains(got, "tiles") {
		t.Errorf("2^60 outputs: %q", got)
	}
}

// TestHopperRing: all the stages that shared memory holds, more than consumers are apart,
// and stages that begin where the swizzle's pattern does.
func TestHopperRing(t *testing.T) {
	for _, d := range hopperTypes {
		for _, tile := range hopperTiles(d) {
			if tile.stages() < 4 || tile.stages() <= hopperLead || tile.shared() > hopperH200.sharedMax {
				t.Errorf("%s: %d stages, %d bytes", tile.kernel(d), tile.stages(), tile.shared())
			}
			if (tile.rows+tile.cols)*hopperStepBytes%1024 != 0 {
				t.Errorf("%s: stages are not aligned to 1024 bytes", tile.kernel(d))
			}
		}
	}
	for _, c := range []struct{ rows, cols, stages int }{{128, 256, 4}, {128, 128, 6}, {128, 176, 5}, {192, 192, 4}, {256, 120, 4}} {
		if stages := (hopperTile{c.rows, c.cols, true}).stages(); stages != c.stages {
			t.Errorf("%dx%d: %d stages, expected %d", c.rows, c.cols, stages, c.stages)
		}
	}
}

// TestHopperBuilt: the image holds a kernel for every tile, and none of them spills.
func TestHopperBuilt(t *testing.T) {
	for _, d := range hopperTypes {
		for _, tile := range hopperTiles(d) {
			k, err := findKernel(tile.kernel(d), 90)
			if err != nil {
				t.Fatal(err)
			}
			if k.Stack > 0 || k.SpillStores > 0 {
				t.Errorf("%s spills", k.Symbol)
			}
		}
	}
}

// TestHopperChoices: tiles fit the rounds of all multiprocessors, and what they leave
// is cut along K only where that is worth its cost.
func TestHopperChoices(t *testing.T) {
	for _, c := range []struct {
		d       kernels.DType
		m, n, k int
		label   string // its beginning
		split   bool
	}{
		// 128 tiles on 132 multiprocessors.
		{kernels.BF16, 1024, 4096, 4096, "", false},
		// 670 is 4 × 168, less two: no other height leaves so little.
		{kernels.BF16, 670, 4096, 4096, "168x128t", false},
		{kernels.FP16, 586, 4096, 14336, "152x128t", false},
		// One round and a bit of any tile; K is long, so that cutting costs little.
		{kernels.BF16, 256, 2304, 65536, "", true},
		// Integers are not stored transposed.
		{kernels.INT8, 1024, 14336, 4096, "", false},
	} {
		choice, seconds := hopper{}.choose(hopperH200, hopperProblem(t, c.d, c.m, c.n, c.k))
		if !strings.HasPrefix(choice.label(), c.label) || (choice.split > 0) != c.split || seconds <= 0 {
			t.Errorf("%s m%d n%d k%d: %q, %g s", c.d, c.m, c.n, c.k, choice.label(), seconds)
		}
		if choice.transposed && c.d == kernels.INT8 {
			t.Errorf("int8: %q", choice.label())
		}
	}
}

// TestHopperSeconds: expectations lie where an H200 at its power limit was measured.
func TestHopperSeconds(t *testing.T) {
	for _, c := range []struct {
		m, n, k int
		us      float64
	}{
		{512, 4096, 4096, 26.7}, {1145, 4096, 4096, 57.8}, {4380, 4096, 4096, 225.6}, {16754, 4096, 4096, 864.9},
		{876, 14336, 4096, 160.7}, {9797, 14336, 4096, 1766}, {586, 4096, 14336, 111.8}, {14651, 4096, 14336, 2567},
		{131, 14336, 4096, 35.5}, {302, 6144, 4096, 29.7}, {407, 4096, 4096, 22.5}, {164, 14336, 4096, 38.9},
	} {
		_, seconds := hopper{}.choose(hopperH200, hopperProblem(t, kernels.BF16, c.m, c.n, c.k))
		if ratio := seconds * 1e6 / c.us; ratio < 0.9 || ratio > 1.12 {
			t.Errorf("m%d n%d k%d: expected %.1f us, measured %.1f", c.m, c.n, c.k, seconds*1e6, c.us)
		}
	}
}

// hopperWalk is the walk of hopper.cu's Work over the pieces of one cluster: tile,
// first step, end.
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

// TestHopperCoverage: every step of every tile is done once, by one cluster; sums are
// handed over by a cluster's first piece alone, so that no two clusters wait for each
// other, and each is taken once, by who holds the end of the tile.
func TestHopperCoverage(t *testing.T) {
	cut := 0
	for _, d := range []kernels.DType{kernels.FP16, kernels.INT8} {
		for _, s := range [][3]int{
			{1, 1, 1}, {600, 1040, 2000}, {1152, 4096, 4096}, {2000, 3001, 3000}, {3000, 4096, 1024}, {256, 2304, 65536}, {130, 14337, 511},
		} {
			p := hopperProblem(t, d, s[0], s[1], s[2])
			for _, tile := range hopperTiles(d)[:4] {
				for _, pair := range []hopperPair{alone, stacked, beside} {
					c := hopperChoice{hopperTile: tile, pair: pair, steps: divideUp(p.K*d.Size(), hopperStepBytes)}
					rows, cols := tile.extent(p)
					c.rowTiles, c.colTiles = divideUp(rows, tile.rows), divideUp(cols, tile.cols)
					for _, c.split = range c.splits(hopperH200) {
						c.clusters = hopperH200.sms / c.size()
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

// TestHopperArgs holds the struct against HopperParams of hopper.cu.
func TestHopperArgs(t *testing.T) {
	p := hopperProblem(t, kernels.FP16, 1000, 4096, 520)
	p.LDA, p.LDC = 528, 4100
	at := addresses{a: 0x1000, b: 0x2000, c: 0x3000, ldb: 520, scratch: 0x4000, flags: 0x5000}
	c := hopperChoice{
		hopperTile: hopperTile{128, 192, true}, pair: stacked, rowTiles: 16, colTiles: 6, steps: 9, clusters: 66, split: 30,
	}
	k := c.call(p, at, 528, true)
	if k.kernel != "ga_hopper_fp16_128x192t" || k.grid.x != 132 || k.cluster.x != 2 || k.block.x != 384 || !k.overlap {
		t.Errorf("%+v", k)
	}
	if len(k.args.bytes) != 512 || len(k.args.maps) != 3 {
		t.Fatalf("%d bytes, %d maps", len(k.args.bytes), len(k.args.maps))
	}
	for i, want := range []tensorMap{
		{dtype: kernels.FP16, address: 0x2000, rows: 4096, cols: 520, ld: 520, boxRows: 128, boxCols: 64, swizzle: 128},
		{dtype: kernels.FP16, address: 0x1000, rows: 1000, cols: 520, ld: 528, boxRows: 96, boxCols: 64, swizzle: 128},
		{dtype: kernels.FP16, address: 0x3000, rows: 1000, cols: 4096, ld: 4100, boxRows: 16, boxCols: 64, swizzle: 128},
	} {
		if got := k.args.maps[i]; got.m != want || got.at != i*tensorMapBytes {
			t.Errorf("map %d: %+v, expected %+v", i, got, want)
		}
	}
	for i, want := range []uint64{0x3000, 4100, 0x4000, 0x5000} {
		if got := binary.LittleEndian.Uint64(k.args.bytes[384+8*i:]); got != want {
			t.Errorf("word at %d: %#x, expected %#x", 384+8*i, got, want)
		}
	}
	for i, want := range []uint32{4096, 1000, 9, 16, 6, hopperGroup, 30, 1, hopperLead, 1} {
		if got := binary.LittleEndian.Uint32(k.args.bytes[416+4*i:]); got != want {
			t.Errorf("integer at %d: %d, expected %d", 416+4*i, got, want)
		}
	}

	c.pair, c.split, c.clusters = beside, 0, 66
	k = c.call(p, at, 528, false)
	if k.args.maps[0].m.boxRows != 64 || k.args.maps[1].m.boxRows != 192 || len(k.args.maps) != 2 {
		t.Errorf("maps of a pair side by side, without TMA for C: %+v", k.args.maps)
	}
	if got := binary.LittleEndian.Uint32(k.args.bytes[416+4*9:]); got != 0 {
		t.Errorf("C counts as aligned: %d", got)
	}
}

// TestHopperStores: TMA writes C only where its rows consist of whole groups of 16 bytes.
func TestHopperStores(t *testing.T) {
	for _, c := range []struct {
		n, ldc, align int
		tma           bool
	}{{4096, 4096, 16, true}, {4096, 4100, 8, false}, {4096, 4096, 8, false}, {4001, 4008, 16, false}, {4000, 4008, 16, true}} {
		p := hopperProblem(t, kernels.BF16, 2000, c.n, 512)
		p.LDC = c.ldc
		calls := hopper{}.Plan(hopperH200, gemmProblem{p, alignment{16, c.align}}).bind(addresses{ldb: 512})
		if got := len(calls[0].args.maps) == 3; got != c.tma {
			t.Errorf("N %d, ldc %d, aligned to %d: stored by TMA %v", c.n, c.ldc, c.align, got)
		}
	}
}

// TestHopperRealign: an A that TMA can't read is copied first, behind which the sums of
// cut tiles lie.
func TestHopperRealign(t *testing.T) {
	p := hopperProblem(t, kernels.BF16, 2000, 3000, 3001)
	aligned, copied := hopper{}.Plan(hopperH200, gemmProblem{p, alignment{16, 16}}), hopper{}.Plan(hopperH200, gemmProblem{p, alignment{2, 16}})
	at := addresses{a: 0x1002, b: 0x2000, c: 0x3000, ldb: 3008, scratch: 0x100000, flags: 0x5000}
	if calls := aligned.bind(at); len(calls) != 1 {
		t.Errorf("%d calls for an aligned A", len(calls))
	}
	calls := copied.bind(at)
	if len(calls) != 2 || calls[0].kernel != "ga_realign" {
		t.Fatalf("%d calls for an A at an odd address", len(calls))
	}
	rows := int64(2000 * 3008 * 2)
	if got := copied.scratch - aligned.scratch; got < rows || got > rows+256 {
		t.Errorf("%d more bytes of scratch for %d of rows", got, rows)
	}
	if copied.seconds <= aligned.seconds {
		t.Error("copying A is free")
	}
	for _, m := range calls[1].args.maps {
		if m.m.rows == 2000 && m.m.cols == 3001 && m.m.address != 0x100000 {
			t.Errorf("A is read at %#x", m.m.address)
		}
	}
	if copied.flags > 0 {
		partial := binary.LittleEndian.Uint64(calls[1].args.bytes[400:])
		if partial < 0x100000+uint64(rows) {
			t.Errorf("sums lie over the copy of A, at %#x", partial)
		}
	}
}
