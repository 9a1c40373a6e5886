//go:build cuda

package cuda

import (
	"context"
	"fmt"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
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
func symbolOf(plan gemmPlan) string {
	name := ""
	for _, c := range plan.bind(addresses{a: 1 << 20, b: 2 << 20, c: 3 << 20, ldb: 1 << 10, scratch: 4 << 20, flags: 5 << 20}) {
		name += " " + c.kernel
	}
	return name
}

// TestSmall runs every kernel that was built, in every tile and schedule that a plan
// may choose, past the gate at small sizes. Under compute-sanitizer it shows accesses
// out of bounds, races, barriers that not all threads reach, and reads of memory that
// nothing wrote.
func TestSmall(t *testing.T) {
	d := gpu(t)
	there, _ := present(families, d.arch)
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
					o := alignment{
						a: alignmentOf(0, int64(q.LDA)*int64(dt.Size())),
						c: alignmentOf(0, int64(q.LDC)*int64(dt.Output().Size())),
					}
					for _, one := range variants(d.arch, f, gemmProblem{q, o}, ran) {
						r := &rung{dev: d, name: f.Name(), among: []gemmFamily{one}}
						if err := kernels.Gate(context.Background(), d, r, p, 1); err != nil {
							t.Error(err)
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
func variants(a arch, f gemmFamily, p gemmProblem, ran map[string]int) []gemmFamily {
	times := 6
	if testing.Short() {
		times = 1
	}
	var out []gemmFamily
	for _, way := range ways(a, f, p) {
		plan := way.Plan(a, p)
		key := symbolOf(plan)
		if _, ok := f.(chooser[gemmProblem, addresses]); ok {
			key = fmt.Sprint(key, plan.scratch > 0)
		}
		if ran[key] >= times {
			continue
		}
		ran[key]++
		out = append(out, way)
	}
	return out
}
