package results

import "cmp"

// Compare orders series as they are printed.
func (k SeriesKey) Compare(o SeriesKey) int {
	inside := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(k.Device, o.Device),
		cmp.Compare(k.Kernel, o.Kernel),
		k.Subject.Compare(o.Subject),
		cmp.Compare(k.Regime, o.Regime),
		cmp.Compare(k.Threads, o.Threads),
		cmp.Compare(inside(k.PackInside), inside(o.PackInside)),
	)
}
