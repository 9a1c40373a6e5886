package rules

// AtThreshold is the change of a case that is known well and lies at the threshold, as
// a [Marginal] row lies at its bound.
const AtThreshold Change = "marginal"

// Marginal counts the cases at the threshold.
func (d *DiffResult) Marginal() int {
	n := 0
	for _, c := range d.Cases {
		if c.Change == AtThreshold {
			n++
		}
	}
	return n
}
