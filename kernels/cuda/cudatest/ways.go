package cudatest

import "github.com/gemmaudit/gemmaudit/kernels/cuda/planning"

type chosen[P, A any] struct {
	planning.Chooser[P, A]
	index int
}

func (c chosen[P, A]) Plan(a planning.Arch, p P) planning.Plan[A] { return c.Candidates(a, p)[c.index] }

// Ways returns each candidate of a family for p as a family that always chooses it, or nil if p is
// unsupported.
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
