package hopper

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

var groupedH200 = planning.Arch{CC: 90, SMs: 132, SharedMax: planning.Shared90, ClockMHz: 1980, Bandwidth: 4.8e12}

// The tiles of a group have room for its rows, waste less than 16 a tile, and are within the kernel's limits.
func TestGroupedTiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := kernels.Dims{
			N: 8 * rapid.IntRange(1, 4000).Draw(t, "n8"), K: 8 * rapid.IntRange(1, 1000).Draw(t, "k8"),
			Groups: rapid.IntRange(1, MostGroups).Draw(t, "groups"),
		}
		if rapid.Bool().Draw(t, "drawn") {
			d.TopK, d.Skew, d.Draw = rapid.IntRange(1, min(8, d.Groups)).Draw(t, "top"), 100, 1
		}
		task := cudatest.Grouped(t, "hopper-grouped", rapid.IntRange(1, 20000).Draw(t, "m"), kernels.BF16, d)
		sizes := gemm.GroupsInBuffers(task).Sizes()
		choices := groupedChoices(groupedH200, task, sizes)
		if len(choices) == 0 {
			t.Fatal("no choice")
		}
		for _, c := range choices {
			if shared := c.shared(c.stages, d.Groups); shared > planning.Shared90 || c.stages < 3 {
				t.Fatalf("%s: %d bytes of shared memory, %d stages", c.label(), shared, c.stages)
			}
			for _, rows := range sizes {
				n, width := gemm.GroupTiles(rows, c.most)
				if n*width < rows || n*width >= rows+n*gemm.GroupWidth || width > c.most || width%gemm.GroupWidth != 0 {
					t.Fatalf("%s: %d rows in %d tiles of %d", c.label(), rows, n, width)
				}
			}
			if c.streams > 1 && c.blocks%c.streams == 0 {
				t.Fatalf("%s: each of %d blocks visits one of %d streams", c.label(), c.blocks, c.streams)
			}
		}
	})
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
		{2, mixtral, []int{16}}, {128, mixtral, []int{16}}, {128, drawn(mixtral), []int{64}}, {8192, mixtral, []int{128, 192}},
		{8, qwen, []int{16}}, {512, qwen, []int{16}}, {16384, qwen, []int{128, 192}}, {65536, qwen, []int{128, 192}},
	} {
		plan := Grouped{}.Plan(groupedH200, gemm.GroupsInBuffers(cudatest.Grouped(t, "hopper-grouped", c.m, kernels.BF16, c.dims)))
		if !slices.Contains(c.widest, plan.Tiling.Tile[0]) {
			t.Errorf("m%d %v: %s, expected a tile of %v tokens", c.m, c.dims, plan.Label, c.widest)
		}
		if plan.Seconds <= 0 {
			t.Errorf("m%d %v: expected time %g s", c.m, c.dims, plan.Seconds)
		}
	}
}

// Every launch that may be chosen uses embedded device code and stays within the limits of both.
func TestGroupedLaunches(t *testing.T) {
	used := map[string]bool{}
	for _, d := range []kernels.DType{kernels.BF16, kernels.FP16, kernels.FP8} {
		for _, m := range []int{1, 40, 300, 5000, 40000} {
			for _, dims := range []kernels.Dims{
				{N: 4096, K: 7168, Groups: 8}, {N: 33, K: 35, Groups: 400}, {N: 1536, K: 2048, Groups: 128, TopK: 8, Skew: 100, Draw: 1},
			} {
				task := cudatest.Grouped(t, "hopper-grouped", m, d, dims)
				for _, stride := range []int{0, 40000} {
					p := gemm.GroupsInBuffers(task)
					p.Stride = stride
					for _, plan := range (Grouped{}).Candidates(groupedH200, p) {
						calls := plan.Bind(gemm.GroupAddresses{Sizes: 6 << 32, Addresses: gemm.Addresses{
							A: 1 << 32, B: 2 << 32, C: 3 << 32, LDB: (dims.K + 15) / 16 * 16, Scratch: 4 << 32, Flags: 5 << 32,
						}})
						for _, c := range calls {
							if err := cudatest.CheckCall(groupedH200, c); err != nil {
								t.Fatalf("%v %s: %v", task, plan.Label, err)
							}
							used[c.Kernel] = true
						}
					}
				}
			}
		}
	}
	cudatest.Unused(t, "ga_hopper_grouped_", used)
}
