package hopper

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func smallMBest(t *testing.T, a planning.Arch, p kernels.Task) smallMChoice {
	t.Helper()
	choices := smallMChoices(a, p)
	if len(choices) == 0 {
		t.Fatalf("%v: no choice", p.Shape())
	}
	return slices.MinFunc(choices, func(x, y smallMChoice) int {
		switch xs, ys := x.seconds(a, p), y.seconds(a, p); {
		case xs < ys:
			return -1
		case xs > ys:
			return 1
		}
		return 0
	})
}

// Choices that were best on an H200, or near it.
func TestSmallMDecisions(t *testing.T) {
	for _, c := range []struct {
		m, n, k int
		label   string // prefix of the label
	}{
		// As many whole tiles as multiprocessors: no splits.
		{8, 14336, 4096, "narrow 8x128 stages 13"},
		{64, 14336, 4096, "narrow 64x128 stages 9"},
		{16, 6144, 4096, "narrow 16x64 stages 11"},
		// Half as many tiles as multiprocessors still saturate memory.
		{16, 4096, 4096, "narrow 16x64 stages 11"},
		// With few rows, parts of K fill the GPU.
		{8, 1024, 4096, "narrow 8x64 stages 11 split 16 of 16"},
		// Two halves of the tokens, in blocks that share weights.
		{96, 4096, 4096, "narrow 48x64 stages 8 cluster 2x1"},
		{128, 4096, 4096, "narrow 64x64 stages 7 cluster 2x1"},
	} {
		p := cudatest.Normalized(t, c.m, c.n, c.k, kernels.BF16)
		if got := smallMBest(t, cudatest.H200, p).label(); !strings.HasPrefix(got, c.label) {
			t.Errorf("%v: %q, want %q", p.Shape(), got, c.label)
		}
	}
}

func TestSmallMBeyond(t *testing.T) {
	choices := func(m, n int) []smallMChoice {
		return smallMChoices(cudatest.H200, cudatest.Normalized(t, m, n, 4096, kernels.BF16))
	}
	if all := choices(smallMRows+1, 16384); all != nil {
		t.Errorf("%d choices for %d rows of 16384 columns", len(all), smallMRows+1)
	}
	all := choices(828, 960)
	if len(all) == 0 {
		t.Fatal("none for few columns")
	}
	for _, c := range all {
		if c.tiles > clustersThatFit(cudatest.H200, c.size()) {
			t.Errorf("%s: %d tiles", c.label(), c.tiles)
		}
	}
}

// alone is an H200 that repeats a small product, with its clock near the highest.
var alone = func() planning.Arch {
	a := cudatest.H200
	a.LoadMHz = 1790
	return a
}()

// TestSmallMSeconds compares the model with times measured on an H200.
func TestSmallMSeconds(t *testing.T) {
	for _, c := range []struct {
		m, n, k      int
		microseconds float64
	}{
		{16, 4096, 4096, 10.1}, {64, 4096, 4096, 11.4}, {128, 4096, 4096, 12.6}, {16, 6144, 4096, 14.1},
		{64, 6144, 4096, 15.1}, {16, 14336, 4096, 28.5}, {64, 14336, 4096, 29.6}, {128, 14336, 4096, 32.6},
		{16, 4096, 14336, 29.2}, {64, 4096, 14336, 30.9},
		{164, 4096, 4096, 14.6}, {329, 6144, 4096, 28.1},
	} {
		p := cudatest.Normalized(t, c.m, c.n, c.k, kernels.BF16)
		got := smallMBest(t, alone, p).seconds(alone, p) * 1e6
		if got < 0.9*c.microseconds || got > 1.1*c.microseconds {
			t.Errorf("%v: %.1f us expected, %.1f measured", p.Shape(), got, c.microseconds)
		}
	}
}

// Absent tokens cost time only if a tile has more than there are, and blocks share operands at the same depth of
// K. An H200 takes 13.5 and 39.0 us for the first two.
func TestSmallMAbsent(t *testing.T) {
	for _, c := range []struct {
		m, n         int
		label        string
		microseconds float64
		within       float64
	}{
		{131, 4096, "narrow 80x64 stages 6 cluster 2x1", 13.5, 0.1},
		{131, 14336, "narrow 160x128 stages 6 cluster 1x2", 39.0, 0.12},
		{160, 14336, "narrow 160x128 stages 6 cluster 1x2", 35.4, 0.1},
		{144, 14336, "narrow 160x128 stages 6", 34.7, 0.1},
	} {
		p, found := cudatest.Normalized(t, c.m, c.n, 4096, kernels.BF16), false
		for _, choice := range smallMChoices(alone, p) {
			if choice.label() != c.label {
				continue
			}
			found = true
			if got := choice.seconds(alone, p) * 1e6; got < (1-c.within)*c.microseconds || got > (1+c.within)*c.microseconds {
				t.Errorf("%v, %s: %.1f us expected, %.1f measured", p.Shape(), c.label, got, c.microseconds)
			}
		}
		if !found {
			t.Errorf("%v has no %s", p.Shape(), c.label)
		}
	}
}

func TestSmallMComparedWithWide(t *testing.T) {
	for _, c := range []struct {
		m, n, k int
		narrow  bool
	}{
		{64, 14336, 4096, true}, {131, 6144, 4096, true}, {164, 4096, 4096, true}, {206, 4096, 14336, true},
		{344, 4096, 4096, true}, {511, 4096, 4096, false},
	} {
		plan := Family{}.Plan(cudatest.H200, gemm.NewProblem(cudatest.Normalized(t, c.m, c.n, c.k, kernels.BF16), 16, 16))
		if strings.HasPrefix(plan.Label, "narrow ") != c.narrow {
			t.Errorf("m%d n%d k%d: %s", c.m, c.n, c.k, plan.Label)
		}
	}
}

// Tiles between the common sizes, where an H100 runs them 10 and 4 % faster.
func TestSmallMBetween(t *testing.T) {
	for _, c := range []struct {
		m, n  int
		label string
	}{
		{163, 4096, "narrow 88x64 stages 5 cluster 2x1"},
		{110, 4096, "narrow 56x64 stages 7 cluster 2x1"},
	} {
		plan := Family{}.Plan(cudatest.H100, gemm.NewProblem(cudatest.Normalized(t, c.m, c.n, 4096, kernels.BF16), 16, 16))
		if plan.Label != c.label {
			t.Errorf("m%d n%d: %q, want %q", c.m, c.n, plan.Label, c.label)
		}
	}
	if p := cudatest.Normalized(t, 163, 4096, 4096, kernels.FP8); smallMBest(t, cudatest.H100, p).tokens%16 != 0 {
		t.Error("a tile between those that fp8 has")
	}
}

// TestSmallMCoverage walks every choice as the device does: each step of each tile runs once, parts of a tile
// are consecutive, and no cluster waits for a later one.
func TestSmallMCoverage(t *testing.T) {
	for _, s := range [][3]int{{1, 8, 8}, {16, 4096, 4096}, {100, 1000, 777}, {200, 6144, 4096}, {511, 14336, 512}, {512, 32768, 64}} {
		p := cudatest.Normalized(t, s[0], s[1], s[2], kernels.FP16)
		for _, c := range smallMChoices(cudatest.H200, p) {
			if err := walkSmallM(c); err != nil {
				t.Fatalf("%v, %s: %v", p.Shape(), c.label(), err)
			}
			covered := c.tokenTiles * c.tokens * c.clusterTokens
			rows := c.tiles / c.tokenTiles * c.rows * c.clusterRows
			if covered < p.M || rows < p.N || c.tiles%c.tokenTiles != 0 {
				t.Fatalf("%v, %s: %d×%d outputs", p.Shape(), c.label(), covered, rows)
			}
			if c.shared(c.stages) > cudatest.H200.SharedMax || c.stages < min(2, c.steps) {
				t.Fatalf("%v, %s: %d bytes of shared memory", p.Shape(), c.label(), c.shared(c.stages))
			}
		}
	}
}

func walkSmallM(c smallMChoice) error {
	total := c.streamed * c.steps
	run, rest := total/c.clusters, total%c.clusters
	start := func(i int) int { return run*i + rest*i/c.clusters }
	done := make([]int, c.tiles)
	longest := 0
	for i := range c.clusters {
		begin, end := start(i), start(i+1)
		if c.streamed > 0 && begin == end {
			return fmt.Errorf("cluster %d has no step", i)
		}
		longest = max(longest, end-begin+planning.DivideUp(max(0, c.tiles-c.streamed-i), c.clusters)*c.steps)
		for at := begin; at < end; {
			tile := at / c.steps
			if done[tile] != at-tile*c.steps {
				return fmt.Errorf("cluster %d begins tile %d at step %d, %d are done", i, tile, at-tile*c.steps, done[tile])
			}
			next := min(end, (tile+1)*c.steps)
			done[tile] += next - at
			at = next
		}
		for tile := c.streamed + i; tile < c.tiles; tile += c.clusters {
			done[tile] += c.steps
		}
	}
	for tile, steps := range done {
		if steps != c.steps {
			return fmt.Errorf("%d of %d steps of tile %d", steps, c.steps, tile)
		}
	}
	if int64(longest) > c.busiest() {
		return fmt.Errorf("a cluster has %d steps, the busiest should have %d", longest, c.busiest())
	}
	return nil
}

func TestSmallMCall(t *testing.T) {
	p := cudatest.Normalized(t, 100, 1000, 776, kernels.FP16)
	p.LDA, p.LDC = 777, 1001
	c := smallMChoice{
		smallMTile: smallMTile{64, 48}, clusterRows: 2, clusterTokens: 2, stages: 7,
		steps: 7, tokenTiles: 2, tiles: 16, clusters: 30, streamed: 16,
	}
	plan := c.plan(cudatest.H200, gemm.NewProblem(p, 2, 2))
	if want := int64(100*776*2+255)/256*256 + 120*64*48*4; plan.Scratch != want || plan.Flags != 120*4 {
		t.Errorf("scratch %d, flags %d, want %d and %d", plan.Scratch, plan.Flags, want, 120*4)
	}
	calls := plan.Bind(gemm.Addresses{A: 2, B: 1 << 20, C: 6, LDB: 776, Scratch: 1 << 30, Flags: 1 << 31})
	if len(calls) != 2 || calls[0].Kernel != "ga_realign" || calls[1].Kernel != "ga_hopper_fp16_narrow_64x48" {
		t.Fatalf("calls %+v", calls)
	}
	k := calls[1]
	if k.Grid.X != 120 || k.Block.X != 160 || k.Cluster.X != 4 || !k.Overlap || k.Shared != 7*(2*112*128+16)+4*640 {
		t.Errorf("launch %+v", k)
	}
	weights, tokens := k.Args.Maps[0], k.Args.Maps[1]
	if weights.At != 0 || weights.Map.BoxRows != 32 || weights.Map.Rows != 1000 || weights.Map.LD != 776 || weights.Map.BoxCols != 64 {
		t.Errorf("map of weights %+v", weights)
	}
	if tokens.At != 128 || tokens.Map.BoxRows != 24 || tokens.Map.Rows != 100 || tokens.Map.Cols != 776 || tokens.Map.Address != 1<<30 {
		t.Errorf("map of tokens %+v", tokens)
	}
	b := k.Args.Bytes
	if got := binary.LittleEndian.Uint64(b[264:]); got != 1<<30+(100*776*2+255)/256*256 {
		t.Errorf("partials at %#x", got)
	}
	var ints []uint32
	for at := 288; at < 288+16*4; at += 4 {
		ints = append(ints, binary.LittleEndian.Uint32(b[at:]))
	}
	want := []uint32{100, 1000, 7, 2, 0, 16, math.MaxInt32, math.MaxInt32, 16, 3, 22, 7, 0, 1, 2, 2}
	if !slices.Equal(ints, want) || len(b) != 384 {
		t.Errorf("%d bytes, ints %v, want %v", len(b), ints, want)
	}
}

func TestSmallMWholeTypes(t *testing.T) {
	for _, d := range kernels.DTypes() {
		if d == kernels.FP32 {
			continue
		}
		for _, s := range [][3]int{{1, 1, 1}, {7, 13, 5}, {8, 14336, 4096}, {512, 65, 100000}} {
			plans := smallMPlans(cudatest.H200, gemm.NewProblem(cudatest.Normalized(t, s[0], s[1], s[2], d), 16, 16))
			if len(plans) == 0 {
				t.Errorf("%s %v: no plan", d, s)
			}
			for _, plan := range plans {
				if !strings.HasPrefix(plan.Label, "narrow ") || !(plan.Seconds > 0 && plan.Seconds < 1) {
					t.Errorf("%s %v: plan %+v", d, s, plan)
				}
			}
		}
	}
}
