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

// chooser is a family that tells all the plans among which it chooses.
type chooser interface {
	family
	candidates(a arch, p kernels.Problem, o alignment) []planned
}

// chosen is a family whose plan is the index-th of its candidates.
type chosen struct {
	chooser
	index int
}

func (c chosen) plan(a arch, p kernels.Problem, o alignment) planned {
	return c.candidates(a, p, o)[c.index]
}

// symbolOf names the kernels that a plan launches.
func symbolOf(plan planned) string {
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
	there, _ := present(d.arch)
	for _, f := range there {
		for _, dt := range kernels.DTypes() {
			t.Run(f.name()+"/"+dt.String(), func(t *testing.T) {
				ran := map[string]int{}
				for _, p := range smallProblems(dt) {
					q, err := p.Normalized()
					if err != nil {
						t.Fatal(err)
					}
					if reason := f.supports(d.arch, q); reason != "" {
						continue
					}
					// As Bind finds it: the gate's operands begin at whole rows.
					o := alignment{
						a: alignmentOf(0, int64(q.LDA)*int64(dt.Size())),
						c: alignmentOf(0, int64(q.LDC)*int64(dt.Output().Size())),
					}
					for _, one := range variants(d.arch, f, q, o, ran) {
						r := &rung{dev: d, name: f.name(), among: []family{one}}
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
func variants(a arch, f family, p kernels.Problem, o alignment, ran map[string]int) []family {
	times := 6
	if testing.Short() {
		times = 1
	}
	c, ok := f.(chooser)
	if !ok {
		key := symbolOf(f.plan(a, p, o))
		if ran[key] >= times {
			return nil
		}
		ran[key]++
		return []family{f}
	}
	var out []family
	for i, plan := range c.candidates(a, p, o) {
		key := fmt.Sprint(symbolOf(plan), plan.scratch > 0)
		if ran[key] >= times {
			continue
		}
		ran[key]++
		out = append(out, chosen{c, i})
	}
	return out
}
