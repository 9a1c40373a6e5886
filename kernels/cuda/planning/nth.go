package planning

import (
	"cmp"
	"fmt"
	"slices"
)

// Nth is a family that runs one plan of another, so each plan can be measured.
type Nth[P, A any] struct {
	Chooser[P, A]
	N int // by expected time, 0 for the fastest
}

// Describe returns a one-line description.
func (f Nth[P, A]) Describe(Arch) string {
	return fmt.Sprintf("plan %d of %s after the fastest, by expected time", f.N, f.Name())
}

// Supports rejects problems with fewer plans, too.
func (f Nth[P, A]) Supports(a Arch, p P) string {
	if why := f.Chooser.Supports(a, p); why != "" {
		return why
	}
	if n := len(f.Candidates(a, p)); f.N >= n {
		return fmt.Sprintf("%s has %d plans for it", f.Name(), n)
	}
	return ""
}

// Plan returns the plan at place N, or the last one.
func (f Nth[P, A]) Plan(a Arch, p P) Plan[A] {
	all := slices.Clone(f.Candidates(a, p))
	slices.SortStableFunc(all, func(x, y Plan[A]) int { return cmp.Compare(x.Seconds, y.Seconds) })
	return all[min(f.N, len(all)-1)]
}
