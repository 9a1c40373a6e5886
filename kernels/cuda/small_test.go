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

// smallProblems are few and small: what a tool that watches every access of every
// thread gets through. They have tails in every direction, rows that no vector access
// may touch, more than one tile, and a K of several stages.
func smallProblems(d kernels.DType) []kernels.Problem {
	all := allSmallProblems(d)
	if testing.Short() { // what remains for a tool that is slower by orders of magnitude
		return all[:2]
	}
	return all
}

// allSmallProblems begins with the two that alone run under such a tool.
func allSmallProblems(d kernels.DType) []kernels.Problem {
	shaped := func(m, n, k int, change func(*kernels.Problem)) kernels.Problem {
		p := kernels.Problem{Shape: kernels.Shape{M: m, N: n, K: k}, DType: d}
		if change != nil {
			change(&p)
		}
		return p
	}
	loose := func(p *kernels.Problem) {
		p.BLayout = kernels.Transposed
		p.LDA, p.LDB, p.LDC = p.K+1, p.K+2, p.N+3
	}
	return []kernels.Problem{
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

// TestSmallIsWhole: what TestSmall runs has every tile for small M that a plan may choose, with K cut and without. It
// needs no GPU.
func TestSmallIsWhole(t *testing.T) {
	family := hopper.Family{}
	tiles := func(p kernels.Problem, to map[string]bool) {
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
				tiles(kernels.Problem{Shape: kernels.Shape{M: m, N: n, K: 4096}, DType: dt}, possible)
			}
		}
		for tile := range possible {
			if !run[tile] {
				t.Errorf("%s: TestSmall never runs %s", dt, tile)
			}
		}
	}
}

// fewSMs is of how many multiprocessors a GPU is taken for so that blocks that stay for several
// tiles, or for parts of them, do so at small sizes, too.
const fewSMs = 4

// few is a family on so small a GPU.
type few struct{ gemm.Family }

func (f few) Plan(a planning.Arch, p gemm.Problem) gemm.Plan {
	a.SMs = fewSMs
	return f.Family.Plan(a, p)
}

// fewProblems are some of which every tile makes more than fewSMs.
func fewProblems(d kernels.DType) []kernels.Problem {
	loose := kernels.Problem{Shape: kernels.Shape{M: 260, N: 519, K: 1043}, DType: d, BLayout: kernels.Transposed, LDA: 1044, LDB: 1045, LDC: 522}
	if testing.Short() {
		return []kernels.Problem{loose}
	}
	return []kernels.Problem{loose, {Shape: kernels.Shape{M: 520, N: 576, K: 1100}, DType: d}, {Shape: kernels.Shape{M: 1000, N: 256, K: 192}, DType: d}}
}

// fewVariants are those ways of doing p on a small GPU whose blocks have several tiles: those of
// hopper's wide tiles.
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

// symbolOf names the kernels that a plan launches.
func symbolOf(plan gemm.Plan) string {
	name := ""
	for _, c := range plan.Bind(gemm.Addresses{A: 1 << 20, B: 2 << 20, C: 3 << 20, LDB: 1 << 10, Scratch: 4 << 20, Flags: 5 << 20}) {
		name += " " + c.Kernel
	}
	return name
}

// TestSmall runs every kernel that was built, in every tile and schedule that a plan
// may choose, past the gate at small sizes. Under compute-sanitizer it shows accesses
// out of bounds, races, barriers that not all threads reach, and reads of memory that
// nothing wrote.
func TestSmall(t *testing.T) {
	d := gpu(t)
	there, _ := gemm.Present(families, d.Arch())
	for _, f := range there {
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

// checkWays runs the ways of doing p past the gate.
func checkWays(t *testing.T, d *Device, f gemm.Family, p kernels.Problem, ways func(planning.Arch, gemm.Problem) []gemm.Family) {
	t.Helper()
	q, err := p.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	// As Bind finds it: the gate's operands begin at whole rows.
	o := gemm.Alignment{
		A: planning.AlignmentOf(0, int64(q.LDA)*int64(p.DType.Size())),
		C: planning.AlignmentOf(0, int64(q.LDC)*int64(p.DType.Output().Size())),
	}
	all := ways(d.Arch(), gemm.Problem{Problem: q, Aligned: o})
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
		r := gemm.NewKernel(d.Device, f.Name(), "", one)
		for _, check := range checks {
			if _, err := check.Margin(context.Background(), d, r); err != nil {
				t.Errorf("%v: %v", one.Plan(d.Arch(), gemm.Problem{Problem: q, Aligned: o}).Label, err)
			}
		}
	}
}

// variants are the family's ways of doing p, none of which has run with as many
// problems as there are kinds of tails.
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
