//go:build cuda

package cuda

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/hopper"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// smallProblems are small enough for tools that check every memory access. They have tails in every
// direction, unaligned rows, several tiles, and a K of several stages.
func smallProblems(d kernels.DType) []kernels.Task {
	all := allSmallProblems(d)
	if testing.Short() { // limited for slow sanitizers
		return all[:2]
	}
	return all
}

// allSmallProblems begins with the two that -short keeps.
func allSmallProblems(d kernels.DType) []kernels.Task {
	shaped := func(m, n, k int, change func(*kernels.Task)) kernels.Task {
		p := kernels.Task{Subject: kernels.Product(d, n, k), M: m}
		if change != nil {
			change(&p)
		}
		return p
	}
	loose := func(p *kernels.Task) {
		p.Layout = kernels.Transposed
		p.LDA, p.LDB, p.LDC = p.K+1, p.K+2, p.N+3
	}
	return []kernels.Task{
		shaped(67, 193, 259, loose),
		shaped(8, 136, 520, nil),
		shaped(1, 72, 136, nil),
		shaped(3, 65, 131, loose),
		shaped(8, 264, 512, nil),
		shaped(70, 200, 328, nil),
		shaped(300, 320, 768/d.Size(), nil),
		shaped(410, 200, 1536/d.Size(), nil),
	}
}

// TestSmall covers every tile for small M that a plan may choose, with and without split K. It needs no GPU.
func TestSmallIsWhole(t *testing.T) {
	family := hopper.Family{}
	tiles := func(p kernels.Task, to map[string]bool) {
		q, err := p.Normalized()
		if err != nil {
			t.Fatal(err)
		}
		for _, plan := range family.Candidates(cudatest.H200, gemm.NewProblem(q, 16, 16)) {
			if strings.HasPrefix(plan.Label, "narrow") {
				to[fmt.Sprint(plan.Tiling.Tile, " cut ", plan.Tiling.Split > 1)] = true
			}
		}
	}
	for _, dt := range []kernels.DType{kernels.BF16, kernels.FP16, kernels.FP8, kernels.INT8, kernels.TF32} {
		run, possible := map[string]bool{}, map[string]bool{}
		for _, p := range allSmallProblems(dt) {
			tiles(p, run)
		}
		for m := 8; m <= 512; m += 8 {
			for _, n := range []int{1024, 4096} {
				tiles(kernels.Task{Subject: kernels.Product(dt, n, 4096), M: m}, possible)
			}
		}
		for tile := range possible {
			if !run[tile] {
				t.Errorf("%s: TestSmall never runs %s", dt, tile)
			}
		}
	}
}

// fewSMs makes persistent blocks process several tiles or splits at small sizes.
const fewSMs = 4

type few struct{ gemm.Family }

func (f few) Plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	a.SMs = fewSMs
	return f.Family.Plan(a, p)
}

func fewProblems(d kernels.DType) []kernels.Task {
	loose := kernels.Task{Subject: kernels.Linear(d, 519, 1043), M: 260, LDA: 1044, LDB: 1045, LDC: 522}
	if testing.Short() {
		return []kernels.Task{loose}
	}
	return []kernels.Task{loose, {Subject: kernels.Product(d, 576, 1100), M: 520}, {Subject: kernels.Product(d, 256, 192), M: 1000}}
}

func fewVariants(a planning.Arch, f gemm.Family, p gemm.Problem) []gemm.Family {
	if f.Name() != "hopper" {
		return nil
	}
	a.SMs = fewSMs
	var out []gemm.Family
	for _, way := range variants(a, f, p, map[string]int{}) {
		if !strings.Contains(symbolOf(way.Plan(a, p)), "_narrow_") {
			out = append(out, few{way})
		}
	}
	return out
}

func symbolOf(plan gemm.Plan) string {
	name := ""
	for _, c := range plan.Bind(gemm.Addresses{A: 1 << 20, B: 2 << 20, C: 3 << 20, LDB: 1 << 10, Scratch: 4 << 20, Flags: 5 << 20}) {
		name += " " + c.Kernel
	}
	return name
}

// TestSmall runs every kernel, in every tile and schedule that a plan may choose, past the gate at small
// sizes. Under compute-sanitizer it shows out-of-bounds accesses, races, divergent barriers and uninitialized
// reads.
func TestSmall(t *testing.T) {
	d := gpu(t)
	there, _ := gemm.Families{Plain: families}.Present(d.Arch())
	for _, f := range there.Plain {
		for _, dt := range kernels.DTypes() {
			t.Run(f.Name()+"/"+dt.String(), func(t *testing.T) {
				ran, ranFew := map[string]int{}, 0
				for _, p := range smallProblems(dt) {
					checkWays(t, d, f, p, func(a planning.Arch, q gemm.Problem) []gemm.Family { return variants(a, f, q, ran) })
				}
				for _, p := range fewProblems(dt) {
					checkWays(t, d, f, p, func(a planning.Arch, q gemm.Problem) []gemm.Family {
						ways := fewVariants(a, f, q)
						ranFew += len(ways)
						return ways
					})
				}
				if len(ran) == 0 {
					t.Skip("nothing of this type")
				}
				t.Logf("%d ways: %v; %d times several tiles a block", len(ran), ran, ranFew)
			})
		}
	}
}

func checkWays(t *testing.T, d *Device, f gemm.Family, p kernels.Task, ways func(planning.Arch, gemm.Problem) []gemm.Family) {
	t.Helper()
	q, err := p.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	o := gemm.Alignment{
		A: planning.AlignmentOf(0, int64(q.LDA)*int64(p.DType.Size())),
		C: planning.AlignmentOf(0, int64(q.LDC)*int64(p.DType.Output().Size())),
	}
	all := ways(d.Arch(), gemm.Problem{Task: q, Aligned: o})
	if len(all) == 0 {
		return
	}
	check, err := kernels.NewGemmCheck(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	checks := []*kernels.GemmCheck{check}
	if !testing.Short() && p.LDA > p.K && p.DType != kernels.INT8 { // with tails in every direction
		checks = append(checks, check.Special())
	}
	for _, one := range all {
		r := gemm.NewKernel(d.Device, f.Name(), "", gemm.Families{Plain: []gemm.Family{one}})
		for _, check := range checks {
			if _, err := check.Margin(context.Background(), d, r); err != nil {
				t.Errorf("%v: %v", one.Plan(d.Arch(), gemm.Problem{Task: q, Aligned: o}).Label, err)
			}
		}
	}
}

func variants(a planning.Arch, f gemm.Family, p gemm.Problem, ran map[string]int) []gemm.Family {
	times := 6
	if testing.Short() {
		times = 1
	}
	var out []gemm.Family
	for _, way := range cudatest.Ways(a, f, p) {
		plan := way.Plan(a, p)
		key := symbolOf(plan)
		if _, ok := f.(planning.Chooser[gemm.Problem, gemm.Addresses]); ok {
			key = fmt.Sprint(key, plan.Scratch > 0)
		}
		if ran[key] >= times {
			continue
		}
		ran[key]++
		out = append(out, way)
	}
	return out
}
