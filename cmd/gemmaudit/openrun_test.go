package main

import "testing"

// Garbage must grow with a run only up to a bound, and an audit of 100 000 series must not spend its time on
// collection.
func TestGarbagePercent(t *testing.T) {
	for _, c := range []struct {
		size int64
		want int
	}{{largeRun, 100}, {100 << 20, 100}, {mostGarbage, 100}, {2 * mostGarbage, 50}, {10 * mostGarbage, 10}, {100 * mostGarbage, 10}} {
		if got := garbagePercent(c.size); got != c.want {
			t.Errorf("a run of %d bytes: %d %%, expected %d", c.size, got, c.want)
		}
	}
}
