package mma

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/artefacts"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Ranges of K cover it without an empty one, tiles have room for all rows, and blocks fit together on a multiprocessor.
func TestGroupedChoices(t *testing.T) {
	archs := slices.DeleteFunc(slices.Clone(cudatest.Archs), func(a planning.Arch) bool { return a.CC < 80 })
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom(archs).Draw(t, "arch")
		d := kernels.Dims{
			N: rapid.IntRange(1, 30000).Draw(t, "n"), K: rapid.IntRange(1, 8000).Draw(t, "k"),
			Groups: rapid.IntRange(1, kernels.MaxGroups).Draw(t, "groups"),
		}
		if rapid.Bool().Draw(t, "drawn") {
			d.TopK, d.Skew, d.Draw = rapid.IntRange(1, min(8, d.Groups)).Draw(t, "top"), 100, 1
		}
		dt := rapid.SampledFrom([]kernels.DType{kernels.BF16, kernels.INT8}).Draw(t, "type")
		p := gemm.GroupsInBuffers(cudatest.Grouped(t, "mma-grouped", rapid.IntRange(1, 20000).Draw(t, "m"), dt, d))
		if rapid.Bool().Draw(t, "apart") {
			p.Stride = p.M
		}
		sizes := p.Sizes()
		choices := groupedChoices(a, p, sizes)
		if len(choices) == 0 {
			t.Fatal("no choice")
		}
		for _, c := range choices {
			steps := planning.DivideUp(d.K*dt.Size(), c.row)
			if c.steps*c.splits < steps || c.steps*(c.splits-1) >= steps || c.room < c.tiles {
				t.Fatalf("%s: %d ranges of %d steps for %d, room for %d of %d tiles", c.label(), c.splits, c.steps, steps, c.room, c.tiles)
			}
			shared := c.shared(c.stages, d.Groups, dt.Output().Size())
			if held := c.perSM * (shared + 1024); shared > a.SharedMax || held > a.SharedMax+1024 || c.stages < groupedLeastStages {
				t.Fatalf("%d: %s: blocks of %d bytes of shared memory", a.CC, c.label(), shared)
			}
		}
	})
}

// Blocks fit on a multiprocessor by registers.
func TestGroupedTilesFit(t *testing.T) {
	for _, cc := range []int{80, 90, 120} {
		for _, tile := range groupedTiles {
			p := gemm.GroupsInBuffers(cudatest.Grouped(t, "mma-grouped", 8, kernels.BF16, kernels.Dims{N: 128, K: 128, Groups: 2}))
			c := groupedChoice{groupedTile: tile, stages: 3, splits: 1, blocks: 1}
			call := c.plan(planning.Arch{CC: cc}, p, 1).Bind(gemm.GroupAddresses{})[0]
			k, err := artefacts.Find(call.Kernel, cc)
			if err != nil {
				t.Fatal(err)
			}
			if held := tile.perSM * tile.threads() * k.Registers; held > 64<<10 {
				t.Errorf("%d: %s: the blocks take %d registers of an SM", cc, k.Symbol, held)
			}
		}
	}
}

// Launches of the routings that models have.
func TestGroupedPlans(t *testing.T) {
	drawn := func(d kernels.Dims) kernels.Dims { d.TopK, d.Skew, d.Draw = 2, 100, 1; return d }
	mixtral, qwen := kernels.Dims{N: 28672, K: 4096, Groups: 8}, kernels.Dims{N: 1536, K: 2048, Groups: 128}
	for _, c := range []struct {
		m      int
		dims   kernels.Dims
		widest []int // any of
	}{
		{2, mixtral, []int{16}}, {128, mixtral, []int{16}}, {128, drawn(mixtral), []int{32, 64}}, {8192, mixtral, []int{128}},
		{8, qwen, []int{16}}, {512, qwen, []int{16}}, {16384, qwen, []int{128}}, {65536, qwen, []int{128}},
	} {
		for _, a := range []planning.Arch{mmaA100, mma4090, mmaH200} {
			plan := Grouped{}.Plan(a, gemm.GroupsInBuffers(cudatest.Grouped(t, "mma-grouped", c.m, kernels.BF16, c.dims)))
			if !slices.Contains(c.widest, plan.Tiling.Tile[0]) || plan.Seconds <= 0 {
				t.Errorf("%d: m%d %v: %s in %g s, expected a tile of %v tokens", a.CC, c.m, c.dims, plan.Label, plan.Seconds, c.widest)
			}
		}
	}
}

// Every launch that may be chosen uses embedded device code and stays within the limits of both.
func TestGroupedLaunches(t *testing.T) {
	used := map[string]bool{}
	for _, dt := range []kernels.DType{kernels.BF16, kernels.FP16, kernels.INT8, kernels.FP8} {
		for _, m := range []int{1, 40, 300, 5000, 40000} {
			for _, dims := range []kernels.Dims{
				{N: 4096, K: 7168, Groups: 8}, {N: 33, K: 35, Groups: 4000}, {N: 1536, K: 2048, Groups: 128, TopK: 8, Skew: 100, Draw: 1},
			} {
				for _, stride := range []int{0, 40000} {
					p := gemm.GroupsInBuffers(cudatest.Grouped(t, "mma-grouped", m, dt, dims))
					p.Stride = stride
					for _, a := range cudatest.Archs {
						if (Grouped{}).Supports(a, p) != "" {
							continue
						}
						for _, plan := range (Grouped{}).Candidates(a, p) {
							calls := plan.Bind(gemm.GroupAddresses{Sizes: 6 << 32, Addresses: gemm.Addresses{
								A: 1 << 32, B: 2 << 32, C: 3 << 32, LDB: (dims.K + 15) / 16 * 16, Scratch: 4 << 32, Flags: 5 << 32,
							}})
							for _, c := range calls {
								if err := cudatest.CheckCall(a, c); err != nil {
									t.Fatalf("m%d %v %s: %v", m, dims, plan.Label, err)
								}
								used[c.Kernel] = true
							}
						}
					}
				}
			}
		}
	}
	cudatest.Unused(t, "ga_mma_grouped_", used)
}

func TestGroupedSupports(t *testing.T) {
	for _, c := range []struct {
		a      planning.Arch
		dt     kernels.DType
		n      int
		reason string
	}{
		{mmaT4, kernels.FP16, 64, "cp.async"},
		{mmaA100, kernels.TF32, 64, "not tf32"},
		{mmaA100, kernels.FP8, 64, "capability 8.9"},
		{mma4090, kernels.FP8, 64, ""},
		{mmaA100, kernels.BF16, 1 << 20, "more than 2147482623"},
	} {
		p := gemm.GroupsInBuffers(cudatest.Grouped(t, "mma-grouped", 8, c.dt, kernels.Dims{N: c.n, K: 64, Groups: 4096}))
		if got := (Grouped{}).Supports(c.a, p); (got == "") != (c.reason == "") || !strings.Contains(got, c.reason) {
			t.Errorf("%s on %d, N %d: %q, expected %q in it", c.dt, c.a.CC, c.n, got, c.reason)
		}
	}
}
