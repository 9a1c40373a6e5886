//go:build cuda

package cuda

import (
	"context"
	"fmt"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// smallProblems are few and small: what a tool that watches every access of every
// thread gets through. They have tails in every direction, rows that no vector access
// may touch, more than one tile, and a K of several stages.
func smallProblems(d kernels.DType) []kernels.Problem {
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
	if testing.Short() { // what remains for a tool that is slower by orders of magnitude
		return []kernels.Problem{shaped(67, 193, 259, loose), shaped(8, 136, 520, nil)}
	}
	return []kernels.Problem{
		shaped(1, 72, 136, nil),
		shaped(3, 65, 131, loose),
		shaped(8, 264, 512, nil),
		shaped(70, 200, 328, nil),
		shaped(67, 193, 259, loose),
		shaped(300, 320, 256, nil),
	}
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
				ran := map[string]int{}
				for _, p := range smallProblems(dt) {
					q, err := p.Normalized()
					if err != nil {
						t.Fatal(err)
					}
					// As Bind finds it: the gate's operands begin at whole rows.
					o := gemm.Alignment{
						A: planning.AlignmentOf(0, int64(q.LDA)*int64(dt.Size())),
						C: planning.AlignmentOf(0, int64(q.LDC)*int64(dt.Output().Size())),
					}
					check, err := kernels.NewGemmCheck(p, 1)
					if err != nil {
						t.Fatal(err)
					}
					checks := []*kernels.GemmCheck{check}
					if !testing.Short() && p.LDA > p.K && dt != kernels.INT8 { // with tails in every direction
						checks = append(checks, check.Special())
					}
					for _, one := range variants(d.Arch(), f, gemm.Problem{Problem: q, Aligned: o}, ran) {
						r := gemm.NewKernel(d.Device, f.Name(), "", one)
						for _, check := range checks {
							if _, err := check.Margin(context.Background(), d, r); err != nil {
								t.Error(err)
							}
						}
					}
				}
				if len(ran) == 0 {
					t.Skip("nothing of this type")
				}
				t.Logf("%d ways: %v", len(ran), ran)
			})
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
