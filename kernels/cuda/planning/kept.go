package planning

import "github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"

// Kept remembers what was chosen for problems, as long as the constants by which it was chosen are
// in force. The zero value is empty.
type Kept[P comparable, C any] struct {
	choices map[P]C
	edition uint64
}

// Choice is what was chosen for p, by choose where that is not known.
func (k *Kept[P, C]) Choice(p P, choose func() C) C {
	edition := calibration.Edition()
	if c, ok := k.choices[p]; ok && k.edition == edition {
		return c
	}
	if len(k.choices) >= KeptPlans || k.choices == nil || k.edition != edition {
		k.choices, k.edition = map[P]C{}, edition
	}
	c := choose()
	k.choices[p] = c
	return c
}
