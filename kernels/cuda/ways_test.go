package cuda

// chosen is a family whose plan is the index-th of its candidates.
type chosen[P, A any] struct {
	chooser[P, A]
	index int
}

func (c chosen[P, A]) Plan(a arch, p P) planned[A] { return c.Candidates(a, p)[c.index] }

// ways are the ways in which a family may plan p, each as a family that always does; none
// where it does not support p.
func ways[P, A any](a arch, f family[P, A], p P) []family[P, A] {
	if f.Supports(a, p) != "" {
		return nil
	}
	c, ok := f.(chooser[P, A])
	if !ok {
		return []family[P, A]{f}
	}
	var all []family[P, A]
	for i := range c.Candidates(a, p) {
		all = append(all, chosen[P, A]{c, i})
	}
	return all
}
