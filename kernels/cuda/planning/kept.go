package planning

// Kept caches choices for problems. The zero value is empty.
type Kept[P comparable, C any] struct{ choices map[P]C }

// Choice returns the cached choice for p, or calls choose.
func (k *Kept[P, C]) Choice(p P, choose func() C) C {
	if c, ok := k.choices[p]; ok {
		return c
	}
	if len(k.choices) >= KeptPlans || k.choices == nil {
		k.choices = map[P]C{}
	}
	c := choose()
	k.choices[p] = c
	return c
}
