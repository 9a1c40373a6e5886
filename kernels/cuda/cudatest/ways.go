package cudatest

import "github.com/gemmaudit/gemmaudit/kernels/cuda/planning"

// chosen is a family whose plan is the index-th of its candidates.
type chosen[P, A any] struct {
	planning.Chooser[P, A]
	index int
}

func (c chosen[P, A]) Plan(a planning.Arch, p P) planning.Plan[A] { return c.Candidates(a, p)[c.index] }

// Ways are the ways in which a family may plan p, each as a family that always does; none
// where it does not support p.
func Ways[P, A any](a planning.Arch, f planning.Family[P, A], p P) []planning.Family[P, A] {
	if f.Supports(a, p) != "" {
		return nil
	}
	c, ok := f.(planning.Chooser[P, A])
	if !ok {
		return []planning.Family[P, A]{f}
	}
	var all []planning.Family[P, A]
	for i := range c.Candidates(a, p) {
		all = append(all, chosen[P, A]{c, i})
	}
	return all
}
